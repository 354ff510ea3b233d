"""A script with shared code, a backend and a benchmark from a repository of one's own.

``docs/how-to/plugins.md`` is followed to the letter, from its empty repository to the table.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
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

# In the Python of the tests, which has the packages of a benchmark.
SHORT = (f"--python={sys.executable}", "--min_duration=300", "--max_wait=0", "--quiet")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("own"))
    made.register(ROOT)
    yield made
    shutil.rmtree(made.path)


PAGE = ROOT / "docs/how-to/plugins.md"
PLUGINS = {"plugins/points_spec.py", "plugins/nearest.py", "plugins/dots.py"}


def files_of_page(text: str) -> dict[str, str]:
    """Return the files that the page shows, by the path in their first line."""
    return dict(re.findall(r"(?ms)^```\w+\n# (\S+/\S+)\n(.*?)^```$", text))


def commands_of_page(text: str) -> list[list[str]]:
    """Return the words after ``cm`` of the lines that the page has its reader type."""
    typed = re.findall(r"(?m)^    cm (.*)$", text.replace("\\\n", ""))
    return [line.split() for line in typed]


@pytest.fixture(scope="module")
def repository(home: Home) -> Path:
    """The repository of the page, with its files; nothing else anywhere is edited."""
    text = PAGE.read_text(encoding="utf-8")
    home.cm(*commands_of_page(text)[0]).ok()
    root = home.cm_repos / "repos/points"
    assert (root / "cmr.yaml").is_file()
    for name, content in files_of_page(text).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    return root


def test_the_page_lists_the_files_that_it_shows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = set(files_of_page(text))
    listed = re.findall(r"(?m)^\| `([\w/.-]+/[\w.-]+)` \|", text)
    assert {name for name in names if not name.startswith("script/")} == {
        name for name in listed if not name.startswith("script/")
    }
    for script in (name for name in listed if name.startswith("script/")):
        assert {f"{script}/{part}" for part in ("meta.yaml", "run.sh", "customize.py")} <= names
    assert names >= PLUGINS


def test_a_script_of_the_repository_uses_its_shared_code(home: Home, repository: Path) -> None:
    words = commands_of_page(PAGE.read_text(encoding="utf-8"))[1]
    made = home.cm(*words, "--out=json", cwd=repository).ok().json
    folder = Path(made["new_env"]["CM_DATASET_PREPROCESSED_PATH"])
    facts = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    assert facts == {"name": "points", "count": 100}
    faults = home.cm("lint", "script", cwd=repository).stdout
    assert "CMB7" not in faults, "what the scripts import and what they name is the same"

    def cached() -> str:
        plan = home.cm("plan", *words[1:], "--out=json", cwd=repository).ok().json["plan"]
        return str(plan["root"]["cached"])

    assert cached() == "hit"
    shared = repository / "lib/points/make.py"
    text = shared.read_text(encoding="utf-8")
    shared.write_text(text + "# An edit.\n", encoding="utf-8")
    assert cached() == "miss"
    shared.write_text(text, encoding="utf-8")
    assert cached() == "hit"


def test_a_benchmark_and_a_backend_of_the_repository_are_run_to_the_table(
    home: Home, repository: Path, tmp_path: Path
) -> None:
    words = commands_of_page(PAGE.read_text(encoding="utf-8"))[2]
    done = home.cm(*words, *SHORT, f"--results_dir={tmp_path / 'results'}", cwd=repository).ok()
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("Offline")]
    assert {"VALID", "100.00"} <= set(row.split())
    (path,) = (tmp_path / "results").rglob("results.json")
    results = json.loads(path.read_text(encoding="utf-8"))
    assert (results["benchmark"], results["backend"]) == ("points", "dots")
    assert results["model"]["name"] == "points"
    assert "numpy" in results["versions"]


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
        *SHORT,
        f"--results_dir={tmp_path / 'results'}",
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
