"""Whether a run fits into memory is said before it starts, with numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from common import weight_files
from mlperf import catalog
from mlperf.harness import host, records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.base import Backend
from mlperf.harness.backends.causal_lm import Transformers
from mlperf.harness.backends.llama_cpp import LlamaCpp
from mlperf.harness.backends.open_ai import OpenAi
from mlperf.harness.errors import HarnessError
from mlperf.harness.jobs import Probe, ProbeRequest
from mlperf.harness.measuring import gpu_users, memory
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, Overrides, SessionSettings, Setup
from mlperf.harness.tuning.layout_probe import LayoutProbe, batch_sizes

PROBE = Probe({}, 1, 50_000, 300_000_000)
TINY = forms.SCRIPT / "get-ml-model-llama3" / "tiny"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GB free, and no limit yet."""
    monkeypatch.setattr(host, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host, "MEMBERSHIP", tmp_path / "membership")
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
        memory.check(settings(machine), catalog.benchmark("resnet50"), PROBE)
    told = str(caught.value)
    assert "50 MB are left below the memory limit" in told
    assert "--performance_sample_count" in caught.value.hint


def test_what_a_sample_in_work_takes_counts_too(machine: Path) -> None:
    """A language model keeps the keys and values of a prompt and its answer."""
    limit(machine / "cgroup" / "outer", "5000000000", 0)
    wanted, spec = settings(machine), catalog.benchmark("resnet50")
    memory.check(wanted, spec, PROBE)
    with pytest.raises(HarnessError, match=r"5\.0 GB for a sample in work"):
        memory.check(wanted, spec, replace(PROBE, work_bytes=5_000_000_000))


def test_the_samples_of_a_repeated_set_are_counted_once(machine: Path) -> None:
    wanted = settings(machine, overrides={})
    own = sum(path.stat().st_size for path in Path(wanted.dataset).glob("*.npy"))
    count, size = memory.loaded(wanted, catalog.benchmark("resnet50"), PROBE)
    assert size == own
    fewer = settings(machine, overrides={"performance_sample_count": count // 2})
    half = memory.loaded(fewer, catalog.benchmark("resnet50"), PROBE)
    assert half == (count // 2, own * (count // 2) // count)


def test_a_session_says_so_before_it_measures(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "meminfo").write_text("MemAvailable: 1000 kB\n")
    with pytest.raises(HarnessError, match="too little memory"):
        sessions.MeasurementSession(settings(machine / "results")).run()
    assert "tuned on" not in capsys.readouterr().out


class Backendless:
    """What the bench asks of a benchmark before it opens anything."""

    sample_count = 5
    work_bytes = 100_000_000

    def load(self, indices: Any) -> None:
        """Nothing is needed in memory here."""


def bench(machine: Path, data_bytes: int, workers: int | None = None) -> Any:
    model = {**lab.model(), "data_bytes": data_bytes}
    given = settings(machine / "results", model=model, overrides={"num_workers": workers})
    request = ProbeRequest(
        benchmark="resnet50",
        backend="null",
        device="cpu",
        model=given.model,
        dataset=given.dataset,
        overrides=given.overrides,
    )
    return LayoutProbe(request, Backendless(), backends.create("null", "cpu", "float32"))  # type: ignore[arg-type]


def test_as_many_copies_of_a_model_are_tried_as_fit(machine: Path) -> None:
    layouts = [(16, 1), (8, 2), (2, 8), (1, 16)]
    assert bench(machine, 0).fitting(layouts) == layouts
    assert bench(machine, 3_000_000_000).fitting(layouts) == [(16, 1), (2, 8), (1, 16)]
    assert bench(machine, 9_000_000_000).fitting(layouts) == [(1, 16)]


def test_as_many_callers_are_tried_as_can_each_compute_a_sample(machine: Path) -> None:
    assert bench(machine, 0).fitting([(100, 1), (50, 2), (1, 100)]) == [(50, 2), (1, 100)]


def test_more_workers_than_fit_are_refused_not_made_fewer(machine: Path) -> None:
    asked = bench(machine, 9_000_000_000, workers=4)
    with pytest.raises(HarnessError, match=r"too little memory for 4 workers: .* 9.0 GB") as caught:
        asked.layouts(16)
    assert "--num_workers" in caught.value.hint


def test_samples_that_take_much_come_in_small_batches(machine: Path) -> None:
    large = bench(machine, 4_000_000_000)
    assert large.most(1, 16) == (8_192_000_000 - large.model_bytes) // 100_000_000
    assert large.most(2, 8) == 1
    assert batch_sizes(Overrides(), most=5) == [1, 2, 4, 5]


def test_weights_beside_a_graph_count_as_the_model(machine: Path) -> None:
    given = settings(machine / "results", model={**lab.model(), "data_bytes": 9_000_000_000})
    probe = replace(PROBE, weight_bytes=null().weight_bytes(given.model))
    with pytest.raises(HarnessError, match=r"9\.0 GB for\s+the model"):
        memory.check(given, catalog.benchmark("resnet50"), probe)


def null() -> Backend:
    return backends.create("null", "cpu", "float32")


def llama(file: str) -> ModelSpec:
    """The tiny Llama as an engine opens it, by one of its files."""
    return records.decode(ModelSpec, {**lab.model(), "path": str(TINY / file)})


@pytest.mark.parametrize(
    ("precision", "number_bytes"), [("float32", 4), ("bfloat16", 2)], ids=["float32", "bfloat16"]
)
def test_a_checkpoint_counts_as_what_it_is_computed_in(precision: str, number_bytes: int) -> None:
    """Its facts name the configuration; its weights lie beside it, here as float16."""
    transformers = Transformers(Setup("cpu", precision))
    assert transformers.weight_bytes(llama("config.json")) == number_bytes * 368_896
    assert transformers.work_bytes(1000) == 1000 * number_bytes // 2


def test_weights_of_several_files_are_counted_once(tmp_path: Path) -> None:
    header = b'{"__metadata__": {}, "a": {"shape": [10, 100]}, "b": {"shape": []}}'
    for name in ("model-1.safetensors", "model-2.safetensors", "consolidated.safetensors"):
        (tmp_path / name).write_bytes(len(header).to_bytes(8, "little") + header)
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors", "z": "lost.bin"}}'
    )
    assert weight_files.bytes_as(tmp_path, 4) == 2 * 4 * 1001
    (tmp_path / "model-2.safetensors").write_bytes(b"\xff" * 99)
    assert weight_files.bytes_as(tmp_path, 4) == 4 * 1001 + 99
    (tmp_path / "model.safetensors.index.json").write_text("[")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x" * 50)
    assert weight_files.bytes_as(tmp_path, 2) == 50


def test_keys_and_values_count_as_they_are_kept(tmp_path: Path) -> None:
    for kept, share in (("float16", 1), ("float32", 2)):
        llamacpp = LlamaCpp(Setup("cpu", "float32", {"kv_cache": kept}))
        assert llamacpp.work_bytes(1000) == 1000 * share
        assert llamacpp.weight_bytes(llama("model.gguf")) == (TINY / "model.gguf").stat().st_size


def test_what_another_server_holds_does_not_count_here() -> None:
    options = {"url": "http://127.0.0.1:9", "model": "m", "api_key_env": "", "api_key_file": ""}
    remote = OpenAi(Setup("cpu", "float32", options))
    assert remote.weight_bytes(llama("model.gguf")) == remote.work_bytes(1000) == 0


@pytest.mark.parametrize(
    ("backend", "precision", "fits"),
    [
        ("onnxruntime", "float32", False),
        ("onnxruntime", "float16", True),
        ("triton", "float32", True),
    ],
)
def test_weights_beyond_the_memory_of_every_gpu_are_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch, backend: str, precision: str, fits: bool
) -> None:
    monkeypatch.setattr(gpu_users, "most_free_bytes", lambda _device: 5_000_000_000)
    wanted = settings(machine, backend=backend, device="cuda", precision=precision)
    probe = replace(PROBE, weight_bytes=6_000_000_000)
    if fits:
        memory.check(wanted, None, probe)
        return
    with pytest.raises(HarnessError, match=r"on the GPU: .* 6\.0 GB .* 5\.0 GB are free") as caught:
        memory.check(wanted, None, probe)
    assert "float16" in caught.value.hint


def test_what_the_libraries_of_a_backend_take_counts(machine: Path) -> None:
    large = replace(PROBE, weight_bytes=7_500_000_000)
    memory.check(settings(machine), None, large)
    with pytest.raises(HarnessError, match=r"1\.0 GB for the rest\), and 8\.2 GB"):
        memory.check(settings(machine), None, replace(large, library_bytes=10**9))
