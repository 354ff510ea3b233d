"""A layer over a Python that is not ours: its packages are used, and none of its files changes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.lib import pythons, wheels
from cmbench.lib.probe import ProbeResult
from cmbench.session.chosen_python import with_chosen_python
from steps import Step, fake_python
from support import ROOT

Install = Callable[..., Step]


def put(folder: Path, name: str, version: str, requires: str = "") -> Path:
    """A wheel in ``folder``."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    files = {
        f"{name}.py": f"version = {version!r}",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in files))
    return folder


def state(folder: Path) -> dict[str, str]:
    """The checksums of all files, byte code included."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another's environment with demo_base 1.0, demo_old 1.0, and no byte code of them.

    Its torchvision was built for another torch than it has.
    """
    root = tmp_path_factory.mktemp("theirs")
    subprocess.run([sys.executable, "-I", "-m", "venv", root / "env"], check=True)
    for name in ("demo_base", "demo_old"):
        put(root / "wheels", name, "1.0")
    put(root / "wheels", "torch", "2.10.0+cu126")
    put(root / "wheels", "torchvision", "0.24.0", "Requires-Dist: torch==2.9.0\n")
    words = [root / "env/bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-compile"]
    words += ["--find-links", root / "wheels", "demo_base", "demo_old"]
    subprocess.run(words, check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    words[-2:] = ["--no-deps", "torch==2.10.0+cu126", "torchvision==0.24.0"]
    subprocess.run(words, check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    return Path(root, "env")


def make_layer(interpreter: str, entry: Path) -> Step:
    python, problem = pythons.describe(interpreter)
    assert python is not None, problem
    env = {
        "CM_PYTHON_BIN_WITH_PATH": python.path,
        "CM_PYTHON_VERSION": python.version,
        "CM_PYTHON_CAN_MAKE_VENV": "yes",
        "CM_PYTHON_LAYER_BASE": interpreter,
    }
    step = Step("install-python-venv", entry, env)
    step.call("preprocess")
    step.automation.run_native_script({"script_name": "run", "env": step.env})
    step.call("postprocess")
    return step


@pytest.fixture(scope="module")
def layer(base: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    step = make_layer(str(base / "bin/python3"), tmp_path_factory.mktemp("layer") / "entry")
    return str(step.env["CM_PYTHON_BIN_WITH_PATH"])


@pytest.fixture
def install(layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    def install(name: str, bounds: str = "") -> Step:
        env = {
            "CM_PYTHON_BIN_WITH_PATH": layer,
            "CM_GENERIC_PYTHON_PACKAGE_NAME": name,
            "CM_TMP_PIP_VERSION_STRING": bounds,
        }
        return Step("get-generic-python-lib", tmp_path / "entry", env)

    return install


def test_packages_of_the_base_are_used_and_what_lacks_is_put_on_top(
    base: Path, layer: str, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(base)
    put(tmp_path / "wheels", "demo_new", "3.0", "Requires-Dist: demo_base\n")
    put(tmp_path / "wheels", "demo_base", "2.0")
    assert install("demo_base").call("preprocess")["version"] == "1.0"
    assert f"demo_base 1.0 is used, of {base}/lib" in capsys.readouterr().out
    assert install("demo_new").call("preprocess")["version"] == "3.0"
    seen = pythons.packages(layer)
    assert seen["demo-new"].is_within(str(Path(layer).parent.parent))
    assert seen["demo-base"].version == "1.0"
    assert state(base) == before


def test_a_wrong_version_goes_over_the_base(
    base: Path,
    layer: str,
    install: Install,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Into the layer, whatever the user has set for other installs."""
    before = state(base)
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_PREFIX", str(tmp_path / "prefix"))
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[install]\ntarget = {tmp_path}/target\nuser = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    put(tmp_path / "wheels", "demo_old", "2.0")
    assert install("demo_old", ">=2").call("preprocess")["version"] == "2.0"
    assert f"1.0 is there ({base}/lib" in capsys.readouterr().out
    assert pythons.packages(str(base / "bin/python3"))["demo-old"].version == "1.0"
    assert state(base) == before


def test_what_follows_never_replaces_a_package_of_the_base(
    base: Path, layer: str, install: Install, tmp_path: Path
) -> None:
    put(tmp_path / "wheels", "demo_needs", "1.0", "Requires-Dist: demo_base>=2\n")
    put(tmp_path / "wheels", "demo_base", "2.0")
    with pytest.raises(Error) as caught:
        install("demo_needs").call("preprocess")
    assert caught.value.code == "pip-failed"
    assert "(constraint) demo-base==1.0" in "\n".join(caught.value.context)
    assert "leave --python out" in caught.value.hint
    assert pythons.packages(layer)["demo-base"].version == "1.0"


def test_what_is_built_for_a_torch_fits_that_of_the_base(
    base: Path, layer: str, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "wheels"
    for vision, torch in (("0.25.0", "2.10.0"), ("0.29.1", "2.14.1")):
        put(folder, "torch", torch)
        put(folder, "torchvision", vision, f"Requires-Dist: torch=={torch}\n")
    over = Step("get-generic-python-lib", tmp_path / "entry", {
        "CM_PYTHON_LAYER_BASE": str(base), "CM_GENERIC_PYTHON_PACKAGE_NAME": "torchvision",
    })  # fmt: skip
    assert over.module.foresee({"env": over.env}) == {}, "it is fetched"
    assert install("torchvision").call("preprocess")["version"] == "0.25.0"
    said = capsys.readouterr().out
    assert "0.24.0 is there, built for torch==2.9.0, and torch is 2.10.0+cu126" in said
    seen = pythons.packages(layer)
    assert (seen["torch"].version, seen["torch"].is_within(str(base))) == ("2.10.0+cu126", True)


def test_what_a_driver_needs_is_fixed_also_in_an_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    versions = {"torch": ("2.10.0", "/layer"), "numpy": ("2.1", "/layer"), "six": ("1", "/base")}
    seen = {
        name: pythons.InstalledVersion(name, version, f"{folder}/lib")
        for name, (version, folder) in versions.items()
    }
    monkeypatch.setattr(pythons, "packages", lambda _python: seen)
    fixed = Step("get-generic-python-lib", tmp_path, {}).module.FIXED
    assert pythons.pins("python3", ["onnx2torch"], "/layer", fixed) == ["six==1", "torch==2.10.0"]
    assert pythons.pins("python3", ["torch"], "/layer", fixed) == ["six==1"]


def test_a_layer_over_a_python_that_is_no_environment(tmp_path: Path) -> None:
    """As of conda, of a container or of the system."""
    interpreter = os.path.join(sys.base_prefix, "bin", "python3")
    step = make_layer(interpreter, tmp_path / "entry")
    made = str(step.env["CM_PYTHON_BIN_WITH_PATH"])
    assert set(pythons.packages(interpreter)) <= set(pythons.packages(made))
    code = "import json, sys; print(json.dumps([sys.prefix, sys.pycache_prefix]))"
    told = json.loads(subprocess.run([made, "-c", code], capture_output=True, text=True).stdout)
    assert told == [str(tmp_path / "entry/venv"), str(tmp_path / "entry/venv/pycache")]


def test_a_layer_is_linked_in_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads a ``.pth`` file in the encoding of the locale."""
    step = Step("install-python-venv", tmp_path / "entry", {})
    seen = tmp_path / "ümgebung 1" / "lib"
    monkeypatch.setattr(step.module, "package_folders", lambda _path: [str(seen)])
    python, _ = pythons.describe(sys.executable)
    assert python is not None
    assert python.virtual
    folder = tmp_path / "schön"
    release = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "lib" / release / "site-packages"
    site.mkdir(parents=True)
    step.module.link_packages({"CM_VIRTUAL_ENV_PATH": str(folder)}, python)
    text = (site / step.module.LAYER).read_bytes().decode("ascii")
    assert ascii(str(seen)) in text
    assert ascii(str(folder / "pycache")) in text


@pytest.mark.parametrize(
    ("pip", "can_make_venv", "options"),
    [
        ("23.2.1", True, ["--without-pip"]),
        ("20.2.4", True, []),
        ("20.2.4", False, ["--without-pip"]),
    ],
)
def test_an_old_pip_of_the_base_is_not_that_of_the_layer(
    pip: str, can_make_venv: bool, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no wheels of manylinux_2_28, and solves nothing."""
    step = Step("install-python-venv", Path("/nowhere"), {})
    python, _ = pythons.describe(sys.executable)
    assert python is not None
    base = replace(python, virtual=True, has_pip=True, can_make_venv=can_make_venv)
    monkeypatch.setattr(step.module, "base_python", lambda *_: base)
    present = pythons.Distribution("pip", pip, "", (), ())
    monkeypatch.setattr(step.module, "installed", lambda *_: present)
    assert step.module.layer_options({"CM_PYTHON_BIN_WITH_PATH": "/x"}) == options


def test_an_import_that_does_not_end_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("get-generic-python-lib", Path("/nowhere"), {})
    late = ProbeResult(("python3",), -9, "", "", 600.0, timed_out=True)
    monkeypatch.setattr(step.module.pythons, "import_problem", lambda *_: late)
    package = step.module.RequestedPackage("demo", "", "", "python3", False)
    present = pythons.Distribution("demo", "1.0", "", ("demo",), ())
    with pytest.raises(Error) as caught:
        step.module.prove_import(package, present)
    assert caught.value.context == ("no answer within 600 s",)
    assert "busy" in caught.value.hint


def test_packages_of_a_user_are_seen_where_the_base_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    release = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    own = tmp_path / "lib" / release / "site-packages"
    own.mkdir(parents=True)
    interpreter = os.path.join(sys.base_prefix, "bin", "python3")
    assert pythons.package_folders(interpreter)[0] == str(own)
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert str(own) not in pythons.package_folders(interpreter)


def test_a_base_that_is_none_is_refused_by_the_plan(tmp_path: Path) -> None:
    old = fake_python(tmp_path / "old/bin/python3", "3.8.1")
    for path, bounds, words in (
        (tmp_path / "nowhere", {}, "does not run as Python 3"),
        (old.parent.parent, {"CM_VERSION_MIN": "3.10"}, "3.8.1"),
    ):
        step = Step("install-python-venv", tmp_path / "entry", {})
        with pytest.raises(Error) as caught:
            step.module.refuse({"env": {"CM_PYTHON_LAYER_BASE": str(path), **bounds}})
        assert caught.value.code == "not-detected"
        assert words in caught.value.message
        assert "--python=" in caught.value.hint


def test_a_folder_without_an_interpreter_is_refused_with_what_to_type(tmp_path: Path) -> None:
    def refused(path: Path) -> Error:
        step = Step("install-python-venv", tmp_path / "entry", {})
        with pytest.raises(Error) as caught:
            step.module.refuse({"env": {"CM_PYTHON_LAYER_BASE": str(path)}})
        return caught.value

    empty = tmp_path / "envs/my work"
    empty.mkdir(parents=True)
    assert "it has no interpreter: neither python3 nor bin/python3" in refused(empty).message
    assert f"python3 -m venv '{empty}'" in refused(empty).hint
    fake_python(tmp_path / "envs/gpu/bin/python3", "3.12.1")
    assert refused(tmp_path / "envs").hint == f"name an environment: --python={tmp_path}/envs/gpu"
    Path(tmp_path, "envs/gpu/bin/activate").touch()
    error = refused(tmp_path / "envs/gpu/bin/activate")
    assert "it is no program" in error.message
    assert error.hint == f"name an environment: --python={tmp_path}/envs/gpu"
    fake_python(tmp_path / "envs/old/bin/python3", "3.9.1")
    step = Step("install-python-venv", tmp_path / "entry", {})
    hint = step.module.other_base(str(tmp_path / "envs"), {"CM_VERSION_MIN": "3.10"}, missing=True)
    assert hint == f"name an environment: --python={tmp_path}/envs/gpu"
    Path(tmp_path, "dead/bin").mkdir(parents=True)
    Path(tmp_path, "dead/bin/python3").symlink_to("/nowhere/python3")
    assert "bin/python3 leads to /nowhere/python3, which is" in refused(tmp_path / "dead").message


def test_a_package_without_a_wheel_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = "ERROR: No matching distribution found for demo-load==6.0.17\n"
    down = "WARNING: Retrying (Retry(total=0)) after connection broken\n"
    cases = [
        (lacks, "a wheel of demo-load==6.0.17", "python3 -m pip wheel --no-deps demo-load==6.0.17"),
        (down + lacks, "a wheel of demo-load==6.0.17", "did not answer"),
        ("no such option: --dry-run", "wheels of numpy, demo-load", "leave --python out"),
        ("ERROR: ResolutionImpossible\n", "wheels of numpy, demo-load", "other versions"),
    ]
    for text, lack, hint in cases:
        failed = ProbeResult(("pip",), 1, "", text, 0.1)
        monkeypatch.setattr(wheels, "probe", lambda *_a, _failed=failed, **_k: _failed)
        with pytest.raises(Error) as caught:
            wheels.fetch_wheels("python3", ["numpy", "demo-load"], str(tmp_path), [])
        assert caught.value.message == f"pip could not fetch {lack}"
        assert hint in caught.value.hint


def test_a_plan_says_which_packages_are_of_the_base(home: Any, base: Path) -> None:
    words = ("--tags=get,generic-python-lib,_package.demo_base", f"--over={base}")
    made = home.cm("run", "script", "install python-venv", f"--over={base}", "--name=mine")
    assert made.status == 0, made.stderr
    words = ("--tags=get,generic-python-lib,_package.demo_base", "--adr.python.name=mine")
    plan = home.cm("plan", "script", *words, f"--env.CM_PYTHON_LAYER_BASE={base}")
    assert "nothing to fetch" in plan.stdout
    assert f"used as they are:\n  demo_base 1.0 of {base}/lib/" in plan.stdout


class OneEntry:
    """A cache with one registered interpreter."""

    def __init__(self, tags: str) -> None:
        self.tags = tags

    def entries(self, _where: object) -> list[Any]:
        env = {"CM_PYTHON_BIN_WITH_PATH": "/opt/conda/bin/python3"}
        fields = {"tags": self.tags.split(","), "created": 1.0, "new_env": env}
        return [type("Entry", (), fields)]


def chosen(flags: dict[str, Any], tags: str = "get", inputs: str = "python") -> dict[str, Any]:
    script: Script = type("S", (), {"inputs": {inputs: None}})  # type: ignore[assignment]
    store: Any = OneEntry(tags)
    return dict(with_chosen_python(flags, script, store))


def test_every_way_to_name_a_python_becomes_one() -> None:
    by_path = {"adr": {"python": {"path": "/x", "version": "3.11"}, "numpy": {"version": "2"}}}
    rest = {"python": {"version": "3.11"}, "numpy": {"version": "2"}}
    assert chosen(by_path) == {"python": "/x", "adr": rest}
    assert chosen(by_path, inputs="other") == by_path
    assert chosen({"adr": {"python3": {"path": "/x"}}}) == {"python": "/x"}
    by_name = {"adr": {"python": {"name": "conda"}}}
    assert chosen(by_name) == {"python": "/opt/conda/bin/python3"}
    assert chosen(by_name, "virtual,of-install-python-venv_1f") == by_name
    with pytest.raises(Error, match="contradict each other"):
        chosen({"python": "/y", **by_path})


def test_a_prepared_folder_has_no_package_of_the_base(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(base)
    put(tmp_path / "index", "demo_more", "1.0", "Requires-Dist: demo_base\n")
    put(tmp_path / "index", "demo_base", "2.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    python = str(base / "bin/python3")
    assert wheels.lacking(python, ["demo_more>=1"], []) == ["demo_more==1.0"]
    assert wheels.lacking(python, ["demo_base"], []) == []
    assert wheels.lacking(python, ["demo_base>=2"], []) == ["demo_base==2.0"]
    with pytest.raises(Error, match="could not fetch a wheel of demo_none"):
        wheels.lacking(python, ["demo_none"], [])
    assert state(base) == before


# Checkers measure and serve nothing.
BENCHMARKS_AND_SERVERS = sorted(
    path.name
    for path in (ROOT / "script").glob("*-*")
    if path.name.startswith(("run-", "bench-")) and not path.name.endswith("-submission-checker")
)


@pytest.mark.parametrize("alias", BENCHMARKS_AND_SERVERS)
def test_every_benchmark_and_server_takes_a_python(alias: str) -> None:
    meta = yaml.safe_load((ROOT / "script" / alias / "meta.yaml").read_text(encoding="utf-8"))
    assert meta["input_mapping"].get("python") == "CM_PYTHON_LAYER_BASE"
    assert meta["input_description"]["python"]["type"] == "path"
    deps = [*meta.get("deps", []), *meta.get("prehook_deps", [])]
    own = [dep for dep in deps if "python" in dep.get("names", [])]
    for dep in own:
        layered = dep.get("skip_if_env", {}) | dep.get("skip_if_any_env", {})
        key = layered if dep["tags"] == "install,python-venv" else dep["enable_if_env"]
        assert "name" in dep or key["CM_PYTHON_LAYER_BASE"] == [""]
    assert not own or "install,python-venv" in {dep["tags"] for dep in own}
