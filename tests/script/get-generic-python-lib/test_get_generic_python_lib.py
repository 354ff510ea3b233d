"""get-generic-python-lib: used when there, installed when not, proved, explained when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib import pythons
from steps import Step, fake_python, load

Package = Callable[..., Step]


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (),
    python: str = "py3",
) -> Path:
    """A real wheel of a package of Python sources."""
    files = {f"{name}.py": f"version = {version!r}"} if files is None else files
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"{line}\n" for line in requires)
    content = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {python}-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{python}-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for place, text in content.items():
            packed.writestr(place, text)
        packed.writestr(f"{info}/RECORD", "".join(f"{p},,\n" for p in [*content, f"{info}/RECORD"]))
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment of its own, with the pip that came with this Python."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python3")


@pytest.fixture
def package(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """``package("demo", version)``: a step that knows no package files but those of ``wheels``."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    (tmp_path / "wheels").mkdir()

    def package(name: str, version: str = "", **env: str) -> Step:
        known = {
            "CM_PYTHON_BIN_WITH_PATH": python,
            "CM_GENERIC_PYTHON_PACKAGE_NAME": name,
            "CM_TMP_PIP_VERSION_STRING": version,
        }
        return Step("get-generic-python-lib", tmp_path / "entry", {**known, **env})

    return package


def refusal(step: Step) -> Error:
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    return caught.value


def test_it_is_installed_once(
    package: Package, python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path / "wheels", "demo_once", "1.2", requires=["Requires-Dist: demo_under"])
    wheel(tmp_path / "wheels", "demo_under", "7")
    step = package("Demo.Once")
    answer = step.call("preprocess")
    assert answer["version"] == "1.2"
    (record,) = answer["relies_on"]
    assert record.endswith("site-packages/demo_once-1.2.dist-info/RECORD")
    assert step.env["CM_PYTHONLIB_DEMO_ONCE_VERSION"] == "1.2"
    assert step.env["CM_PYTHONLIB_DEMO_ONCE_CACHE_TAGS"] == "version-1.2"
    assert step.env[step.env["CM_TMP_PYTHON_PACKAGE_VERSION_KEY"]] == "1.2"
    assert pythons.installed(python, "demo-under") is not None
    assert capsys.readouterr().out == "Demo.Once: not there yet\n"
    assert list(Path(step.env["CM_TMP_RUN_DIR"]).iterdir()) == [], "no index URL is left behind"
    module = Path(record).parent.parent / "demo_once"
    assert not (module / "__pycache__").exists(), "what is imported is compiled then"

    wheel(tmp_path / "wheels", "demo_once", "9.9")
    assert package("demo_once").call("preprocess")["version"] == "1.2", "what is there will do"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("bounds", "version", "said"),
    [
        ("==1.0", "1.0", "2.0 is there, ==1.0 is wanted"),
        (">=2.5", "3.0", "2.0 is there, >=2.5 is wanted"),
        (">=1.5,<=2.5", "2.0", ""),
        ("<=1.5", "1.0", "2.0 is there, <=1.5 is wanted"),
    ],
)
def test_versions(
    package: Package, tmp_path: Path, capsys: pytest.CaptureFixture[str], bounds: str, version: str,
    said: str,
) -> None:  # fmt: skip
    for number in ("1.0", "2.0", "3.0"):
        wheel(tmp_path / "wheels", "demo_versions", number)
    package("demo_versions", "==2.0").call("preprocess")
    capsys.readouterr()
    assert package("demo_versions", bounds).call("preprocess")["version"] == version
    assert capsys.readouterr().out == (f"demo_versions: {said}\n" if said else "")


def test_a_local_version_is_a_version_of_its_release(package: Package, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_local", "2.1+cpu")
    assert package("demo_local", "==2.1").call("preprocess")["version"] == "2.1+cpu"
    (tmp_path / "wheels/demo_local-2.1+cpu-py3-none-any.whl").unlink()
    assert package("demo_local", "==2.1").call("preprocess")["version"] == "2.1+cpu"


def test_force_pre_and_no_deps(package: Package, python: str, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_force", "1.0", requires=["Requires-Dist: demo_absent"])
    with pytest.raises(Error):
        package("demo_force").call("preprocess")
    alone = package("demo_force", CM_GENERIC_PYTHON_PACKAGE_INSTALL_DEPS="no")
    assert alone.call("preprocess")["version"] == "1.0"
    wheel(tmp_path / "wheels", "demo_force", "1.1rc1")
    forced = {"CM_TMP_PYTHON_PACKAGE_FORCE_INSTALL": "yes"}
    assert package("demo_force", **forced).call("preprocess")["version"] == "1.0"
    forced["CM_GENERIC_PYTHON_DEV_VERSION"] = "yes"
    assert package("demo_force", **forced).call("preprocess")["version"] == "1.1rc1"


def test_extras_are_looked_at(package: Package, python: str, tmp_path: Path) -> None:
    extra = ["Provides-Extra: more", "Requires-Dist: demo_more; extra == 'more'"]
    wheel(tmp_path / "wheels", "demo_extra", "1.0", requires=extra)
    wheel(tmp_path / "wheels", "demo_more", "1.0")
    package("demo_extra").call("preprocess")
    assert pythons.installed(python, "demo_more") is None
    step = package("demo_extra[more]")
    assert step.call("preprocess")["version"] == "1.0"
    assert step.env["CM_DEMO_EXTRA_VERSION"] == "1.0"
    assert pythons.installed(python, "demo_more") is not None


def test_a_package_from_a_file(package: Package, tmp_path: Path) -> None:
    path = wheel(tmp_path / "elsewhere", "demo_file", "0.1")
    step = package("demo_file", CM_GENERIC_PYTHON_PIP_URL=str(path), CM_TMP_OFFLINE="yes")
    assert step.call("preprocess")["version"] == "0.1"


def test_what_is_in_the_way_is_removed(package: Package, python: str, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_old", "1.0")
    wheel(tmp_path / "wheels", "demo_new", "1.0")
    package("demo_old").call("preprocess")
    package("demo_new", CM_GENERIC_PYTHON_PIP_UNINSTALL_DEPS="demo_old").call("preprocess")
    assert pythons.installed(python, "demo_old") is None


def test_arguments_are_not_evaluated(package: Package, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_words", "1.0")
    step = package("demo_words", CM_GENERIC_PYTHON_PIP_EXTRA="--find-links '$(touch pwned) `id`;'")
    step.call("preprocess")
    assert not (step.cwd / "pwned").exists()


@pytest.mark.parametrize("name", ["", "x; rm", "a b", "--upgrade", "x==1", "../x", "x[y"])
def test_names_that_are_no_packages(package: Package, name: str) -> None:
    assert refusal(package(name)).code == "bad-value"


def test_an_import_that_fails_is_reported(package: Package, tmp_path: Path) -> None:
    broken = {"demo_broken/__init__.py": "import ctypes; ctypes.CDLL('libnowhere.so.7')"}
    wheel(tmp_path / "wheels", "demo_broken", "1.0", broken)
    error = refusal(package("demo_broken"))
    assert error.code == "import-failed"
    assert error.message == "demo_broken 1.0 is installed, but cannot be imported (demo_broken)"
    assert "libnowhere.so.7" in error.context[-1]
    package("demo_broken", CM_GENERIC_PYTHON_PACKAGE_IMPORT="no").call("preprocess")


@pytest.mark.parametrize(
    ("raised", "hint"),
    [
        (
            "ImportError('libGL.so.1: cannot open shared object file: No such file or directory')",
            "it needs libGL.so.1 of the system: install the package that has it",
        ),
        (
            'ImportError("/lib/libm.so.6: version `GLIBC_2.38\' not found (required by x.so)")',
            "it was built for a newer system: choose an older version with --version_max",
        ),
        (
            "RuntimeError('operator torchvision::nms does not exist')",
            "this torchvision was built for another PyTorch",
        ),
    ],
)
def test_known_reasons_of_a_failed_import(
    package: Package, tmp_path: Path, raised: str, hint: str
) -> None:
    name = "demo_reason" + str(len(hint))
    wheel(tmp_path / "wheels", name, "1.0", {f"{name}.py": f"raise {raised}"})
    assert refusal(package(name)).hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "files", "module"),
    [
        (
            "demo_a",
            {"demo_a/__init__.py": "", "demo_a/sub/__init__.py": "", "tests/__init__.py": ""},
            "demo_a",
        ),
        ("demo_types", {"demo-stubs/__init__.pyi": ""}, ""),
        ("Demo_Pic", {"PIC/__init__.py": "", "_pic.py": ""}, "PIC"),
        ("demo_space", {"space/demo/__init__.py": "", "space/demo/x.py": ""}, "space.demo"),
        ("demo_one", {"demo_one.py": "", "other.py": ""}, "demo_one"),
    ],
)
def test_the_module_by_which_a_package_is_proved(
    package: Package, python: str, tmp_path: Path, name: str, files: dict[str, str], module: str
) -> None:
    wheel(tmp_path / "wheels", name, "1.0", files)
    package(name).call("preprocess")
    found = pythons.installed(python, name)
    assert found is not None
    assert pythons.import_name(found) == module


def test_modules_of_the_current_directory_are_not_imported(
    package: Package, tmp_path: Path, python: str
) -> None:
    wheel(tmp_path / "wheels", "demo_here", "1.0")
    step = package("demo_here")
    step.call("preprocess")
    for name in ("demo_here", "json", "importlib"):
        (step.cwd / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    step.call("preprocess")
    assert not (tmp_path / "ran").exists()


def test_the_python_of_the_system_is_left_alone(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = fake_python(tmp_path / "bin/python3", "3.11.2", externally_managed=True)
    error = refusal(package("demo", CM_PYTHON_BIN_WITH_PATH=str(system)))
    assert error.render() == (
        f"error [externally-managed]: {system} belongs to the system, which does not allow pip to "
        "install demo there\n"
        "  next:   make an environment, and add --adr.python.name=mlperf to your command:\n"
        '          cm run script "install python-venv" --name=mlperf'
    )
    monkeypatch.setenv("PIP_BREAK_SYSTEM_PACKAGES", "1")
    assert refusal(package("demo", CM_PYTHON_BIN_WITH_PATH=str(system))).code != error.code


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"has_pip": False}, "pip-missing"), ({"executable": ""}, "install-failed")],
)
def test_a_python_that_cannot_install(
    package: Package, tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    python = fake_python(tmp_path / "bin/python3", "3.11.2", **changes)
    assert refusal(package("demo", CM_PYTHON_BIN_WITH_PATH=str(python))).code == code


def test_offline(package: Package, tmp_path: Path) -> None:
    wheel(tmp_path / "folder", "demo_offline", "1.0")
    error = refusal(package("demo_offline", "==1.0", CM_TMP_OFFLINE="yes"))
    assert error.message == ("demo_offline==1.0 is not installed, and the network is turned off")
    links = {"CM_GENERIC_PYTHON_PIP_EXTRA_FIND_LINKS_URL": str(tmp_path / "folder")}
    step = package("demo_offline", "==1.0", CM_TMP_OFFLINE="yes", **links)
    assert step.call("preprocess")["version"] == "1.0"
    assert package("demo_offline", CM_TMP_OFFLINE="yes").call("preprocess")["version"] == "1.0"


def test_a_version_that_does_not_exist(package: Package, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_none", "1.0")
    wheel(tmp_path / "wheels", "demo_future", "1.0", python="py4")
    error = refusal(package("demo_none", "==5.0"))
    assert error.code == "pip-failed"
    assert error.exit_code == 2
    assert error.message.startswith("pip could not install demo_none==5.0 for Python 3.")
    assert "(from versions: 1.0)" in error.context[-2]
    assert error.hint == "choose one of the versions that pip lists above: --version=..."
    error = refusal(package("demo_future"))
    assert error.hint.startswith("there is no demo_future for Python 3.")
    assert all(not line.startswith("Looking in") for line in error.context)


def test_a_folder_that_is_missing_or_has_files_for_another_python(
    package: Package, tmp_path: Path
) -> None:
    key = "CM_GENERIC_PYTHON_PIP_EXTRA_FIND_LINKS_URL"
    error = refusal(package("demo_none", **{key: str(tmp_path / "nowhere")}))
    assert error.code == "bad-value"
    assert error.message == f"--find_links={tmp_path}/nowhere: there is no such folder"
    built = wheel(tmp_path / "other", "demo_other", "1.0", python="py4")
    error = refusal(package("demo_other", **{key: str(tmp_path / "other")}))
    assert error.hint.startswith(f"{built.name} of {tmp_path}/other is for another Python or mach")
    built.write_bytes(b"PK")
    sound = built.with_name(built.name.replace("py4", "py3"))
    built.rename(sound)
    error = refusal(package("demo_other", **{key: str(tmp_path / "other")}))
    assert error.hint.endswith("is damaged: fetch it again")


NETWORK = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to \
establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/numpy/
ERROR: Could not find a version that satisfies the requirement numpy (from versions: none)
ERROR: No matching distribution found for numpy
"""
RECORDED = {
    NETWORK: "pip does not reach its index",
    "ERROR: Could not find a version that satisfies x (from versions: none)": "there is no x",
    "Failed to establish a new connection\nwheel_stub.error.InstallFailedError: The installation "
    "of tensorrt-cu13-libs failed. This is a special placeholder package": "_rtx builds",
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
    "failed: self-signed certificate": "PIP_CERT",
    "ERROR: Could not install: [Errno 28] No space left on device": "builds also need room in "
    f"{tempfile.gettempdir()} (",
    "ERROR: ResolutionImpossible: for help visit": "exclude each other",
    "src/_x.c:5:10: fatal error: Python.h: No such file or directory\n"
    "error: command '/usr/bin/gcc' failed with exit code 1": "python3-dev",
    "error: command 'x86_64-linux-gnu-g++' failed: No such file or directory": "get sys-utils-cm",
    "ERROR: Failed building wheel for x": "has to be compiled for Python 3.11.7",
    "PermissionError: [Errno 13] Permission denied: '/usr/lib/python3'": "not yours",
    "something else": "the whole output of pip: ",
}


@pytest.mark.parametrize("output", RECORDED, ids=lambda text: text[:30])
def test_recorded_failures_of_pip(tmp_path: Path, output: str) -> None:
    module = load("get-generic-python-lib")
    (tmp_path / "pip.log").write_text("Collecting x\n" + output)
    found, _ = pythons.describe(fake_python(tmp_path / "python3", "3.11.7"))
    wanted = module.RequestedPackage("x", "==1", "", "python3", False)
    error = module.pip_failed(wanted, found, str(tmp_path / "pip.log"))
    assert RECORDED[output] in error.hint
    assert error.context[-1] == output.strip().splitlines()[-1]


def test_a_list_of_many_versions_is_cut_to_the_newest() -> None:
    module = load("get-generic-python-lib")
    versions = ", ".join(f"1.{number}" for number in range(300))
    (line,) = module.last_words(f"ERROR: Could not find (from versions: {versions})")
    assert line.startswith("ERROR: Could not find (from versions: ..., 1.288, ")
    assert line.endswith("1.299)")


# ---------------------------------------------------------------- through the engine


def run(home: Any, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = home.cm("run", "script", *words, "--out=json").json
    return result


@pytest.fixture
def lab(home: Any, python: str, tmp_path: Path) -> Any:
    """A home whose pip knows only the package files of this test."""
    home.extra_env.update(
        PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "wheels"), PIP_CONFIG_FILE=os.devnull
    )
    return home


def test_through_the_engine(lab: Any, python: str, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "demo_engine", version)
    words = ("--tags=get,generic-python-lib,_package.demo-engine", f"--adr.python.path={python}")
    first = run(lab, *words)
    assert first["return"] == 0, first
    assert (first["cached"], first["version"]) == (False, "2.0")
    assert first["new_env"] == {
        "CM_DEMO_ENGINE_VERSION": "2.0",
        "CM_PYTHONLIB_DEMO_ENGINE_CACHE_TAGS": "version-2.0",
        "CM_PYTHONLIB_DEMO_ENGINE_VERSION": "2.0",
    }
    assert run(lab, *words)["cached"]
    older = run(lab, *words, "--version=1.0")
    assert (older["cached"], older["version"]) == (False, "1.0")
    stale = run(lab, *words)
    assert (stale["cached"], stale["version"]) == (False, "1.0"), "the files of 2.0 are gone"
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "demo-engine"], check=True)
    assert run(lab, *words)["version"] == "2.0"


def test_a_failure_through_the_engine(lab: Any, python: str, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    failed = lab.cm(
        "run", "script", "--tags=get,generic-python-lib,_numpy_not", f"--adr.python.path={python}"
    )
    assert failed.status == 16
    words = ("--tags=get,generic-python-lib,_package.demo-missing", f"--adr.python.path={python}")
    failed = lab.cm("run", "script", *words)
    assert failed.status == 2
    assert "error [pip-failed]: pip could not install demo-missing for Python" in failed.stderr
    assert "No matching distribution found for demo-missing" in failed.stderr
    assert run(lab, *words)["code"] == "pip-failed", "a failure is not cached"


def test_two_at_once_do_not_meet_in_one_python(lab: Any, python: str, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    names = ["demo-par-a", "demo-par-b"]
    for name in names:
        wheel(tmp_path / "wheels", name.replace("-", "_"), "1.0")
    with ThreadPoolExecutor() as pool:
        results = list(
            pool.map(
                lambda name: run(
                    lab,
                    f"--tags=get,generic-python-lib,_package.{name}",
                    f"--adr.python.path={python}",
                ),
                names,
            )
        )
    assert [result["version"] for result in results] == ["1.0", "1.0"], results


@pytest.mark.parametrize("name", ["torch", "onnxruntime"])
def test_names_of_existing_commands_resolve(home: Any, name: str) -> None:
    plan = home.cm("plan", "script", f"--tags=get,generic-python-lib,_{name}", "--out=json")
    assert f"Python package {name}" in plan.ok().stdout
