"""Whether a run fits into memory is said before it starts, with numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlperf_harness import memory, records, rules
from mlperf_harness import session as sessions
from mlperf_harness.calibration import Probe
from mlperf_harness.errors import HarnessError
from mlperf_harness.settings import SessionSettings

import benchmark_lab as lab

PROBE = Probe({}, 1, 50_000)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GB free, and no limit yet."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable:   8000000 kB\n")
    (tmp_path / "membership").write_text("0::/outer/inner\n")
    (tmp_path / "cgroup" / "outer" / "inner").mkdir(parents=True)
    return tmp_path


def limit(folder: Path, most: str, used: int, cached: int = 0) -> None:
    """What a cgroup says of its memory."""
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")


def settings(results: Path, **changes: Any) -> SessionSettings:
    """Settings of a short session."""
    return records.decode(SessionSettings, lab.settings(results, **changes))


def test_free_memory_is_the_least_of_all_bounds(machine: Path) -> None:
    assert memory.available() == (8_192_000_000, "are free on this machine")
    inner, outer = machine / "cgroup" / "outer" / "inner", machine / "cgroup" / "outer"
    limit(inner, "max", 5)
    assert memory.available()[0] == 8_192_000_000
    limit(outer, "1000000000", 900_000_000, cached=50_000_000)
    free, whose = memory.available()
    assert free == 150_000_000
    assert "limit of this container" in whose
    limit(inner, "500000000", 600_000_000)
    assert memory.available()[0] == 0


def test_the_older_kind_of_limit_counts_too(machine: Path) -> None:
    folder = machine / "cgroup" / "memory"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text("700000000")
    (folder / "memory.usage_in_bytes").write_text("100000000")
    assert memory.available()[0] == 600_000_000


def test_nothing_is_refused_where_nothing_is_known(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert memory.available() == (None, "")
    memory.check(settings(machine), None, PROBE)


def test_a_run_that_does_not_fit_is_refused_with_numbers(machine: Path) -> None:
    limit(machine / "cgroup" / "outer", "400000000", 350_000_000)
    with pytest.raises(HarnessError, match="too little memory: a run needs about 30") as caught:
        memory.check(settings(machine), rules.benchmark("resnet50"), PROBE)
    told = str(caught.value)
    assert "50 MB are left below the memory limit" in told
    assert "--performance_sample_count" in told


def test_the_samples_of_a_repeated_set_are_counted_once(machine: Path) -> None:
    wanted = settings(machine, overrides={})
    own = sum(path.stat().st_size for path in Path(wanted.dataset).glob("*.npy"))
    count, size = memory.loaded(wanted, rules.benchmark("resnet50"), PROBE)
    assert size == own
    fewer = settings(machine, overrides={"performance_sample_count": count // 2})
    half = memory.loaded(fewer, rules.benchmark("resnet50"), PROBE)
    assert half == (count // 2, own * (count // 2) // count)


def test_a_session_says_so_before_it_measures(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "meminfo").write_text("MemAvailable: 1000 kB\n")
    with pytest.raises(HarnessError, match="too little memory"):
        sessions.Session(settings(machine / "results")).run()
    assert "calibrated" not in capsys.readouterr().out
