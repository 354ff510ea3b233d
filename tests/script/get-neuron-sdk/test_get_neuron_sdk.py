"""get-neuron-sdk: real, a placeholder, or absent; in Pythons with packages made for the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cmbench.errors import Error
from steps import Step, load
from support import run

DUMMY = 'raise ImportError("WRONG PACKAGE. Please install the package from Neuron Repository")\n'
# What guide 003's `pip list | grep neuron` shows.
GUIDE = {
    "neuron-cc": "1.11.4.0+97f99abe4",
    "tensorboard-plugin-neuron": "2.4.0.0",
    "tensorflow-neuron": "1.15.5.2.3.0.0",
}


def environment(folder: Path) -> Path:
    """A virtual environment without pip; its Python is real."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def package(environment: Path, name: str, version: str, module: str = "", code: str = "") -> None:
    (site,) = environment.glob("lib/python3*/site-packages")
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (about / "RECORD").write_text("")
    if module:
        place = site.joinpath(*module.split("."))
        place.mkdir(parents=True)
        (place / "__init__.py").write_text(code)


def found(folder: Path, kind: str, **env: str) -> Step:
    given = {"CM_NEURON_SDK_KIND": kind, "CM_PYTHON_BIN_WITH_PATH": sys.executable}
    return Step("get-neuron-sdk", folder / "cwd", {**given, **env})


@pytest.mark.parametrize(
    ("kind", "module", "packages"),
    [
        ("tensorflow", "tensorflow.neuron", GUIDE),
        ("pytorch", "torch_neuron", {"torch-neuron": "1.13.1.2.11", "neuron-cc": "1.24"}),
        ("neuronx", "torch_neuronx", {"torch-neuronx": "2.9.0.2.11", "neuronx-cc": "2.22"}),
    ],
)
def test_the_real_one_is_handed_out_with_its_versions(
    kind: str, module: str, packages: dict[str, str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    made = environment(tmp_path / "sdk")
    main = load("get-neuron-sdk").sdks()[kind]["packages"][0]
    for name, version in packages.items():
        package(made, name, version, module if name == main else "")
    step = found(tmp_path, kind, CM_TMP_PATH=str(made))
    answer = step.call("preprocess")
    assert step.env["CM_NEURON_SDK_PYTHON"] == str(made / "bin/python3")
    assert json.loads(step.env["CM_NEURON_SDK_VERSIONS"]) == packages
    assert answer["version"] == packages[main]
    said = capsys.readouterr().out.splitlines()
    assert set(said) >= {f"{name} {version}" for name, version in packages.items()}


@pytest.mark.parametrize(
    ("main", "code", "compiler", "names"),
    [
        ("1.0", DUMMY, "2.22", ["torch-neuronx"]),
        ("1.0", DUMMY, "1.0.post1", ["torch-neuronx", "neuronx-cc"]),
        ("2.9.0", "", "1.0.post1", ["neuronx-cc"]),
        ("9.9", DUMMY, "2.22", ["torch-neuronx"]),
    ],
)
def test_a_placeholder_is_named_with_what_removes_it(
    main: str, code: str, compiler: str, names: list[str], tmp_path: Path
) -> None:
    made = environment(tmp_path / "sdk")
    package(made, "torch-neuronx", main, "torch_neuronx", code)
    package(made, "neuronx-cc", compiler)
    with pytest.raises(Error, match="has a placeholder of the public index") as caught:
        found(tmp_path, "neuronx", CM_TMP_PATH=str(made)).call("preprocess")
    first, second, *_ = caught.value.hint.splitlines()
    assert first == f"{made}/bin/python3 -m pip uninstall -y {' '.join(names)}"
    assert second.startswith(f"{made}/bin/python3 -m pip install --extra-index-url=https://pip.")
    assert caught.value.code == "import-failed"


def test_an_sdk_that_does_not_fit_its_python_says_its_own_words(tmp_path: Path) -> None:
    made = environment(tmp_path / "sdk")
    package(made, "torch-neuron", "1.13.1", "torch_neuron", "import numpy_of_another_time\n")
    with pytest.raises(Error, match="was found") as caught:
        found(tmp_path, "pytorch", CM_TMP_PATH=str(made)).call("preprocess")
    assert "No module named 'numpy_of_another_time'" in caught.value.context[0]


def test_without_any_the_line_of_pip_is_told(tmp_path: Path) -> None:
    made = environment(tmp_path / "none")
    with pytest.raises(Error, match="no Python with the Neuron SDK") as caught:
        found(tmp_path, "pytorch", CM_PYTHON_BIN_WITH_PATH=str(made / "bin/python3")).call(
            "preprocess"
        )
    assert '"torch-neuron==1.13.1.*" "neuron-cc[tensorflow]"' in caught.value.hint
    assert caught.value.code == "not-detected"


def test_a_version_that_is_not_wanted_is_passed_over(tmp_path: Path) -> None:
    made = environment(tmp_path / "sdk")
    package(made, "torch-neuronx", "2.1.2", "torch_neuronx")
    step = found(tmp_path, "neuronx", CM_TMP_PATH=str(made), CM_VERSION_MIN="2.5")
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    assert "2.1.2" in caught.value.context[0]


def test_a_place_without_a_python_is_a_bad_value(tmp_path: Path) -> None:
    with pytest.raises(Error, match="there is no Python"):
        found(tmp_path, "neuronx", CM_TMP_PATH=str(tmp_path)).call("preprocess")


@pytest.mark.needs_index
def test_the_placeholders_of_the_index_are_seen_through(tmp_path: Path) -> None:
    made = environment(tmp_path / "sdk")
    (site,) = made.glob("lib/python3*/site-packages")
    words = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(site), "torch-neuronx==1.0"]
    run([sys.executable, *words]).ok()
    with pytest.raises(Error, match=r"a placeholder of the public index.*torch-neuronx"):
        found(tmp_path, "neuronx", CM_TMP_PATH=str(made)).call("preprocess")
