"""A benchmark and a backend from a folder of one's own, from one command to the table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT, Home

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]

# The benchmark: one specification and one module.
SPECIFICATION = """
from dataclasses import replace

from mlperf.catalog import Target, benchmark, metrics

SPECS = (
    replace(
        benchmark("resnet50", ""),
        name="errors",
        module="errors_seen:Errors",
        accuracy=(Target(metrics.TOP1, 76.46),),
    ),
)
"""
BENCHMARK = '''
from dataclasses import replace

from mlperf.harness.benchmarks.image_classification import ImageClassification


class Errors(ImageClassification):
    """Counts what is wrong, in place of what is right."""

    def accuracy(self, answers, samples):
        right = super().accuracy(answers, samples)
        print(f"{100 - right.value:.2f} % wrong", flush=True)
        return right
'''
# The backend: one module, which holds its specification too.
BACKEND = """
from mlperf.catalog import BackendSpec, Package

SPECS = (
    BackendSpec(
        name="mirror",
        title="ONNX Runtime under another name",
        module="mirror_spec:create",
        packages=(Package("onnxruntime"),),
    ),
)


def create(setup):
    from mlperf.harness.backends.onnx_runtime import OnnxRuntime

    class Mirror(OnnxRuntime):
        def versions(self):
            return {"mirror": "1.0"} | super().versions()

    return Mirror(setup)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("own"))
    made.register(ROOT)
    yield made
    shutil.rmtree(made.path)


def own(folder: Path) -> Path:
    """A folder with a benchmark and a backend; nothing else anywhere is edited."""
    folder.mkdir()
    (folder / "errors_spec.py").write_text(SPECIFICATION, encoding="utf-8")
    (folder / "errors_seen.py").write_text(BENCHMARK, encoding="utf-8")
    (folder / "mirror_spec.py").write_text(BACKEND, encoding="utf-8")
    return folder


def test_they_are_run_from_one_command_to_the_table(home: Home, tmp_path: Path) -> None:
    words = [
        "--tags=run-mlperf,inference,_tiny",
        f"--plugins={own(tmp_path / 'own')}",
        "--model=benchmark.errors",
        "--backend=backend.mirror",
        "--min_duration=1000",
        f"--results_dir={tmp_path / 'results'}",
        "--quiet",
    ]
    done = home.cm("run", "script", *words)
    done.ok()
    table = [line for line in done.stdout.splitlines() if "Offline" in line]
    assert any("VALID" in line for line in table), done.stdout
    (results,) = (tmp_path / "results").rglob("results.json")
    told = json.loads(results.read_text(encoding="utf-8"))
    assert (told["benchmark"], told["backend"]) == ("errors", "mirror")
    assert told["versions"]["mirror"] == "1.0"


def test_a_name_that_the_folder_does_not_have_is_refused(home: Home, tmp_path: Path) -> None:
    words = ["--tags=run-mlperf,inference,_tiny", f"--plugins={own(tmp_path / 'own')}"]
    done = home.cm("run", "script", *words, "--model=benchmark.abacus", "--quiet")
    assert done.status != 0
    assert "--model=abacus is not known" in done.stderr
