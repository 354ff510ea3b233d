"""Whether something large fits is said in numbers, by the narrowest bound."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.host import machine


@pytest.mark.parametrize(("total", "limit", "told"), [(16, 0, "16 GB"), (64, 8, "8.0 GB")])
def test_the_limit_of_a_container_counts_as_much_as_the_machine(
    monkeypatch: pytest.MonkeyPatch, total: int, limit: int, told: str
) -> None:
    facts = machine.MemoryFacts(total * 10**9, 1, limit * 10**9)
    monkeypatch.setattr(machine, "memory_facts", lambda: facts)
    with pytest.raises(Error, match=f"it needs about 20 GB of memory, this machine has {told}"):
        capacity.check_memory({}, "it", 20 * 10**9, "take less")
    capacity.check_memory({"CM_CHECK_ROOM": "no"}, "it", 20 * 10**9, "take less")
    capacity.check_memory({}, "it", min(total, limit or total) * 10**9, "take less")


def test_an_unknown_size_of_memory_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_facts", lambda: machine.MemoryFacts(0, 0, 0))
    capacity.check_memory({}, "it", 10**15, "take less")


@pytest.mark.parametrize(
    ("needed", "free", "told"),
    [
        (4 * 10**9, 3 * 10**9, "needs about 4.0 GB on the disk of {}, which has 3.0 GB free"),
        (12 * 10**6, 40_000, "needs about 12.0 MB on the disk of {}, which has 40.0 kB free"),
    ],
)
def test_a_full_disk_is_reported_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, needed: int, free: int, told: str
) -> None:
    monkeypatch.setattr(capacity.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(Error, match=re.escape(told.format(tmp_path))):
        capacity.check_disk({}, "it", needed, str(tmp_path))
    capacity.check_disk({"CM_CHECK_ROOM": "off"}, "it", needed, str(tmp_path))


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b").write_bytes(b"4567")
    assert capacity.size_of_files(str(tmp_path)) == 3
