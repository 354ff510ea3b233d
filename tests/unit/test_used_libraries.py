"""What an edit of a file of lib makes stale: what it is run or opened for, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from cmbench.lib.import_closure import import_closure
from support import LIB, ROOT

EVERY_MODEL = {
    path.name for path in (ROOT / "script").glob("get-ml-model-*") if (path / "meta.yaml").is_file()
}
RETRAINED = {"get-ml-model-bert-large-squad,_retrain"}
QUANTIZED = {"quantize-ml-model"}
ENGINES = {"generate-nvidia-engine"}
RUNS = {"app-mlperf-inference", "run-mlperf-inference-app"}


def uses() -> Iterator[tuple[str, list[str]]]:
    """Each script, and each variation as ``alias,_name``, with what it names under uses."""
    for path in sorted((ROOT / "script").glob("*/meta.yaml")):
        meta = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield path.parent.name, meta.get("uses") or []
        for name, block in (meta.get("variations") or {}).items():
            yield f"{path.parent.name},_{name}", (block or {}).get("uses") or []


@pytest.fixture(scope="module")
def stale() -> dict[str, set[str]]:
    """By file of lib, the scripts and variations whose entries an edit makes stale."""
    imports: dict[str, object] = {}
    found: dict[str, set[str]] = {}
    for script, names in uses():
        for name in names:
            for file in import_closure(str(LIB), name, imports):  # type: ignore[arg-type]
                found.setdefault(file, set()).add(script)
    return found


@pytest.mark.parametrize(
    ("file", "those", "not_those"),
    [
        ("mlperf/harness/quantization/quantize.py", QUANTIZED | RUNS, EVERY_MODEL | ENGINES),
        ("mlperf/harness/benchmarks/speech.py", QUANTIZED | RUNS, EVERY_MODEL | ENGINES),
        ("mlperf/harness/benchmarks/squad.py", QUANTIZED | RETRAINED, EVERY_MODEL | ENGINES),
        (
            "mlperf/harness/backends/py_torch.py",
            {"get-ml-model-resnet50,_pytorch", *RUNS},
            EVERY_MODEL | ENGINES,
        ),
        ("mlperf/harness/reporting/readme.md.j2", RUNS, QUANTIZED | ENGINES | EVERY_MODEL),
        ("mlperf/harness/engines/builder.py", ENGINES, EVERY_MODEL),
        (
            "modelzoo/preprocessing/squad/wordpiece.py",
            {"get-preprocessed-dataset-squad"} | RETRAINED,
            EVERY_MODEL,
        ),
        ("modelzoo/hooks/ml_models.py", EVERY_MODEL, {"get-dataset-digits", "get-dataset-squad"}),
        (
            "modelzoo/graph.py",
            {"get-ml-model-resnet50,_synthetic", "get-ml-model-gptj,_synthetic"},
            {"get-dataset-digits", "get-dataset-squad", "get-preprocessed-dataset-squad"},
        ),
    ],
)
def test_an_edit_makes_stale_what_was_made_with_it(
    file: str, those: set[str], not_those: set[str], stale: dict[str, set[str]]
) -> None:
    assert (LIB / file).is_file()
    assert those - stale[file] == set()
    assert stale[file] & not_those == set()


def test_every_file_of_lib_is_there_for_a_script(stale: dict[str, set[str]]) -> None:
    """But for what the pages of the engine import, and for the models of a user's own."""
    unused = {
        path.relative_to(LIB).as_posix() for path in LIB.rglob("*") if path.is_file()
    } - stale.keys()
    unused = {name for name in unused if "__pycache__" not in name}
    assert unused <= {
        "mlperf/own_models/__init__.py",
        "mlperf/own_models/own_model.py",
        "mlperf/own_models/own_spec.py",
        "mlperf/pages/scatter.py",
    }
