"""The words of containers: what the guide's command has, flag by flag; names; a real container."""

from __future__ import annotations

import csv
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cmbench.container import engines, launch
from cmbench.container.workplace import user_text
from cmbench.errors import Error
from common.problems import Problem
from nvidia_flow_lab import Hands
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import docker, flow, neuron, targets
from support import HANG_S, ROOT

GUIDE = """docker run -dt -e NVIDIA_VISIBLE_DEVICES=ALL -w /work
    --security-opt apparmor=unconfined --security-opt seccomp=unconfined
    -v $HOME:/mnt$HOME
    -v $PWD:/work
    -v $MLPERF_SCRATCH_PATH:$MLPERF_SCRATCH_PATH
    -e MLPERF_SCRATCH_PATH=$MLPERF_SCRATCH_PATH
    --name mlperf-inference-<USERNAME> mlperf-inference:<USERNAME>-latest"""
"""What the guide of v0.7 types to keep a container for ``docker exec``."""
SHORT = {"-e": "--env", "-w": "--workdir", "-v": "--volume"}
OURS = {
    "--user": "results belong to the user, not to root",
    "--userns": "the same, of a rootless podman",
    "--hostname": "results carry the name of the machine",
    "--network": "a proxy on the machine itself",
    "--env": "where cm finds its home, its cache and its Python",
    "--mount": "cm itself, its scripts and its cache",
    "--security-opt": "the label of SELinux, where there is one",
}
"""Flags that the guide's command has not, each with its reason."""


def loaded() -> ModuleType:
    """The side of the words that knows the engine: it lies beside the script's customize.py."""
    path = ROOT / "script/run-harness/flow_containers.py"
    spec = importlib.util.spec_from_file_location("flow_containers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONTAINERS = loaded()
T4 = GpuMachine("Tesla T4", 1, 15, 70, "7.5")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the flow, a home and a scratch space, and no engine on PATH."""
    for name in ("flow", "home", "scratch", "cm", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CM_REPOS", str(tmp_path / "cm"))
    for name in ("http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    (tmp_path / "cm/repos.json").write_text("[]")
    return tmp_path


def a_flow(place: Path, gpus: GpuMachine | None = None, **variables: str) -> flow.Flow:
    given = {"MLPERF_SCRATCH_PATH": str(place / "scratch"), **variables}
    settings = flow.FlowSettings("Me", form="tiny", allow_root=True)
    return flow.Flow(place / "flow", settings, given, targets.NVIDIA, Hands(gpus))


def made_of(flow_: flow.Flow, word: str) -> tuple[str, dict[str, Any], list[str]]:
    """What a word would have made."""
    targets.find(word, flow_.vendor).function()(flow_)
    assert isinstance(flow_.runner, Hands)
    (made,) = flow_.runner.made
    return made


def printed(place: Path, capfd: Any, engine: str, what: str, told: Mapping[str, Any]) -> list[str]:
    """The printed command of an engine that need not be there, as a shell takes it apart."""
    given = {**told, "engine": engine}
    with capfd.disabled():
        pass
    assert CONTAINERS.run_step(str(place / "cm"), what, given, [], True) == 0
    lines = capfd.readouterr().err.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("-- commands")) + 1
    return shlex.split(lines[start])


def flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values, in long names; the image is a flag without a name."""
    rest = iter(words)
    for word in rest:
        if word in ("-dt", "--detach", "--tty"):
            yield from [("--detach", ""), ("--tty", "")] if word == "-dt" else [(word, "")]
        elif not word.startswith("-"):
            yield "image", word
            return
        else:
            value = next(rest)
            yield SHORT.get(word, word), _mounted(value) if word == "--mount" else value


def _mounted(value: str) -> str:
    (fields,) = csv.reader([value])
    parts = dict(field.partition("=")[::2] for field in fields)
    return f"{parts['source']}:{parts['target']}" + (":ro" if "readonly" in fields else "")


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_guides_command_flag_by_flag(place: Path, capfd: Any, engine: str) -> None:
    scratch, home, folder = (str(place / name) for name in ("scratch", "home", "flow"))
    text = GUIDE.replace("$HOME", home).replace("$PWD", folder)
    text = text.replace("$MLPERF_SCRATCH_PATH", scratch).replace("<USERNAME>", docker.user_name())
    guide = set(flags(text.split()[2:]))
    told = docker.described(a_flow(place), headless=True)
    words = printed(place, capfd, engine, "start", told)
    assert words[1] == "run"
    ours = {(name.replace("--mount", "--volume"), value) for name, value in flags(words[2:])}
    # The toolkit knows "all" in lower case only.
    visible = ("--env", "NVIDIA_VISIBLE_DEVICES=ALL")
    assert guide - ours == {visible}
    assert ("--env", "NVIDIA_VISIBLE_DEVICES=all") in ours
    more = {name for name, value in ours - guide} - {"--volume"}
    assert more <= set(OURS), "each further flag has its reason"
    # The guide's text says /workspace where its commands say /work: both are there.
    assert ("--volume", f"{folder}:/workspace") in ours


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_what_comes_after_it(place: Path, capfd: Any, engine: str) -> None:
    told = docker.described(a_flow(place), headless=True)
    CONTAINERS.run_step(str(place / "cm"), "start", {**told, "engine": engine}, [], True)
    last = capfd.readouterr().err.splitlines()[-3:]
    name = f"mlperf-inference-{docker.user_name()}"
    words = [shlex.split(line.split(maxsplit=1)[1]) for line in last]
    assert words[0][1:4] == ["exec", "--interactive", "--tty"]
    assert [line[1:] for line in words[1:]] == [
        ["container", "stop", name],
        ["container", "rm", name],
    ]


def test_gpus_are_handed_over_as_the_engine_has_it(place: Path, capfd: Any) -> None:
    some = a_flow(place, T4, NVIDIA_VISIBLE_DEVICES="0,2,4")
    told = docker.described(some, headless=True)
    assert told["env"]["NVIDIA_VISIBLE_DEVICES"] == "0,2,4"
    by_docker = printed(place, capfd, "docker", "start", told)
    # Docker takes the value apart at its commas, but for those in quotes.
    assert by_docker[by_docker.index("--gpus") + 1] == '"device=0,2,4"'
    by_podman = printed(place, capfd, "podman", "start", told)
    assert [w for w in by_podman if w.startswith("nvidia.com")] == [
        f"nvidia.com/gpu={number}" for number in (0, 2, 4)
    ]
    assert docker.described(a_flow(place, T4))["gpus"] == "all"
    assert docker.described(a_flow(place))["gpus"] == "", "engines start nothing with none"
    assert docker.described(a_flow(place, T4, NVIDIA_VISIBLE_DEVICES="none"))["gpus"] == ""


@pytest.mark.parametrize("told", ["0;1", "0,,1", "first", "--privileged", "0 1", "GPU-$(id)"])
def test_what_names_no_gpu(place: Path, told: str) -> None:
    with pytest.raises(Problem, match="names no GPU"):
        docker.described(a_flow(place, T4, NVIDIA_VISIBLE_DEVICES=told))


def test_rounds_have_what_their_makefiles_have(place: Path) -> None:
    old = docker.described(a_flow(place))
    assert (old["network"], old["capabilities"], old["shm_size"]) == ("host", ("SYS_ADMIN",), "")
    azure = a_flow(place)
    azure = replace(azure, settings=replace(azure.settings, vendor_round="v3.1"))
    new = docker.described(azure)
    assert (new["shm_size"], new["ulimits"], new["work"]) == ("32gb", ("memlock=-1",), "/work")
    assert "/workspace" not in [mount[1] for mount in new["mounts"]]
    assert new["cpus"] == ",".join(map(str, sorted(os.sched_getaffinity(0))))


def test_inferentia_has_its_devices_and_no_gpus(place: Path) -> None:
    of = a_flow(place, T4)
    settings = replace(of.settings, vendor_round="v2.0")
    told = docker.described(replace(of, settings=settings, vendor=neuron.ACCELERATOR))
    assert told["env"]["AWS_NEURON_VISIBLE_DEVICES"] == "ALL"
    assert told["gpus"] == ""
    assert told["ulimits"] == ("memlock=-1",)


# ---- words


def test_words_of_containers(place: Path) -> None:
    what, told, command = made_of(a_flow(place, DOCKER_COMMAND="make run $(id)"), "launch_docker")
    assert (what, command) == ("run", ["bash", "-c", "make run $(id)"])
    assert told["image"] == f"mlperf-inference:{docker.user_name()}-latest"
    assert made_of(a_flow(place, DOCKER_DETACH="1"), "launch_docker")[0] == "start"
    assert made_of(a_flow(place), "build_docker")[0] == "image"
    assert made_of(a_flow(place), "docker_add_user")[1]["user"] == docker.user_name()
    shell = made_of(a_flow(place, PRINT="1"), "attach_docker")
    assert (shell[0], shell[1]["interactive"], shell[2]) == ("run", True, ["bash"])


def test_prebuild_builds_where_there_is_an_engine(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detached = a_flow(place, CONTAINER_ENGINE="docker", DOCKER_DETACH="1", MIG_CONF="1")
    assert made_of(detached, "prebuild")[0] == "image"
    assert isinstance(detached.runner, Hands)
    assert docker.UNCUT in detached.runner.told
    baking = a_flow(place, NO_BUILD="0", CONTAINER_ENGINE="docker")
    docker.build_docker(baking)
    assert isinstance(baking.runner, Hands)
    assert [(what, command) for what, _, command in baking.runner.made] == [
        ("image", []),
        ("run", ["make", "build"]),
    ]
    with open(os.devnull, encoding="ascii") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert made_of(a_flow(place, CONTAINER_ENGINE="docker"), "prebuild")[0] == "image"
        with pytest.raises(Problem, match="needs a terminal"):
            docker.attach_docker(a_flow(place))


def test_no_engine_and_no_scratch_space(place: Path) -> None:
    with pytest.raises(Problem, match="CONTAINER_ENGINE=none"):
        docker.build_docker(a_flow(place, CONTAINER_ENGINE="none"))
    with pytest.raises(Problem, match="is not a folder") as caught:
        docker.build_docker(a_flow(place, MLPERF_SCRATCH_PATH=str(place / "no where/at all")))
    assert caught.value.hint.startswith(f"mkdir -p '{place}/no where/at all'")
    docker.build_docker(a_flow(place, MLPERF_SCRATCH_PATH=str(place / "new"), PRINT="1"))
    assert not (place / "new").exists(), "it is only shown"
    # The container engine would make it as root.
    docker.build_docker(a_flow(place, MLPERF_SCRATCH_PATH=str(place / "new")))
    assert (place / "new").is_dir()


@pytest.mark.parametrize(
    ("asked", "says"), [("dockr", 'did you mean "docker"?'), ("docker", "CONTAINER_ENGINE=podman")]
)
def test_what_to_type_stands_as_make_takes_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, asked: str, says: str
) -> None:
    monkeypatch.setenv("PATH", str(place / "bin"))
    tool = place / "bin/docker"
    tool.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2; exit 1\n")
    tool.chmod(0o755)
    told = docker.described(a_flow(place))
    for call in (
        lambda: CONTAINERS.engine_name(asked),
        lambda: CONTAINERS.run_step(
            str(place / "cm"), "image", {**told, "engine": asked}, (), False
        ),
    ):
        with pytest.raises(Error) as caught:
            call()
        assert says in caught.value.hint
        assert "--docker" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("hint", [hint for _, hint in launch._CAUSES])
def test_what_a_failed_build_advises_can_be_typed_with_make(
    place: Path, monkeypatch: pytest.MonkeyPatch, hint: str
) -> None:
    def failing(*_: object) -> int:
        raise Error("image-failed", "the image could not be built", hint=hint)

    monkeypatch.setattr(CONTAINERS, "_run_step", failing)
    with pytest.raises(Error) as caught:
        CONTAINERS.run_step(str(place / "cm"), "image", {}, (), False)
    assert "--docker" not in caught.value.hint


# ---- attacks

ARGS = {
    "": (),
    "-v /a:/b -v /c:/d": ("-v", "/a:/b", "-v", "/c:/d"),
    "--cpus=4 --privileged --shm-size 1g": ("--cpus=4", "--privileged", "--shm-size", "1g"),
    "-v '/a b:/c'": ("-v", "/a b:/c"),
    "-e X=$(id)": ("-e", "X=$(id)"),
}


@pytest.mark.parametrize("text", ARGS)
def test_docker_args_are_words(text: str) -> None:
    assert docker.docker_args(text) == ARGS[text]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("; rm -rf x", "; would be taken for an image"),
        ("evil/image sh -c id", "evil/image would be taken for an image"),
        ("--privileged evil/image", "evil/image would be taken for an image"),
        ("-v /a:/b evil/image", "evil/image would be taken for an image"),
        ("--cpus=4 evil/image", "evil/image would be taken for an image"),
        ("-- evil/image", "-- would be taken for an image"),
        ("-", "- would be taken for an image"),
        ("--name other", "--name is set here"),
        ("--name=other", "--name is set here"),
        ("--entrypoint /bin/sh", "--entrypoint is set here"),
        ("-v '/a:/b", "cannot be read"),
        ("-v '/a\n:/b'", "control character"),
    ],
)
def test_docker_args_that_would_be_something_else(text: str, says: str) -> None:
    with pytest.raises(Problem) as caught:
        docker.docker_args(text)
    assert says in str(caught.value)


def test_odd_names_of_users_make_sound_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    for name, wanted in (
        ("DOMAIN\\ann lee", "DOMAIN-ann-lee"),
        ("-x --privileged", "x---privileged"),
        ("ann; id", "ann-id"),
        ("…", "user7"),
        ("a" * 200, "a" * 64),
    ):
        found = SimpleNamespace(pw_name=name)
        monkeypatch.setattr("pwd.getpwuid", lambda uid, found=found: found)
        assert docker.user_name(7) == wanted


@pytest.mark.parametrize("name", ["a:b", "a'b", "", "-x", "a\nb", "$(id)", "ä"])
def test_odd_names_come_into_no_image(name: str) -> None:
    with pytest.raises(Error, match="is not a valid user name"):
        user_text("x:1", name, 1, 1)


@pytest.mark.parametrize(
    ("key", "value"), [("name", "a b"), ("name", "--x"), ("image", "a"), ("image", "A:b c")]
)
def test_odd_names_are_given_to_no_engine(place: Path, key: str, value: str) -> None:
    told = {**docker.described(a_flow(place)), key: value, "engine": "docker"}
    with pytest.raises(Error, match="is not a valid"):
        CONTAINERS.run_step(str(place / "cm"), "start", told, [], True)


# ---- for real


def _small_system(folder: Path) -> None:
    """A root with a shell and a few programs of this machine; its way in does nothing more."""
    import re

    for name in ("sh", "bash", "cat", "id", "grep", "ls"):
        program = Path(shutil.which(name) or "/bin/" + name)
        said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=HANG_S)
        libraries = [Path(found) for found in re.findall(r"(/\S+)", said.stdout)]
        for source, target in [(program, Path("/bin") / name), *((p, p) for p in libraries)]:
            copy = folder / target.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source.resolve(), copy)
    enter = folder / "opt/cmbench/enter"
    enter.parent.mkdir(parents=True)
    enter.write_text('#!/bin/sh\nexec "$@"\n')
    enter.chmod(0o755)
    (folder / "etc").mkdir(exist_ok=True)
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "tmp").mkdir()


def test_the_words_in_a_real_container(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image under the guide's name, with a user; commands in a container that is kept."""
    buildah = shutil.which("buildah")
    if buildah is None or os.geteuid() != 0:
        pytest.skip("buildah is not installed, or cannot start containers: apt install buildah")
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/images"\nrunroot = "{place}/running"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(place / "storage.conf"))
    _small_system(place / "root")
    told = {**docker.described(a_flow(place)), "engine": "buildah"}
    (place / "Containerfile").write_text("FROM scratch\nCOPY root/ /\n")
    base = [buildah, "build", "--isolation=chroot", "--tag", told["image"], str(place)]
    subprocess.run(base, check=True, capture_output=True, timeout=120)
    cm = str(place / "cm")
    adding = {**told, "user": "ann"}
    assert CONTAINERS.run_step(cm, "user", adding, [], False) == 0, "root is there already"

    def run(command: str) -> int:
        status: int = CONTAINERS.run_step(cm, "run", told, ["bash", "-c", command], False)
        return status

    assert CONTAINERS.run_step(cm, "start", told, [], False) == 0
    try:
        assert run("echo $MLPERF_SCRATCH_PATH > out; echo x > /tmp/kept") == 0
        assert (place / "flow/out").read_text() == f"{place / 'scratch'}\n"
        assert run("cat /tmp/kept > kept; cat /etc/passwd > users; exit 4") == 4
        assert (place / "flow/kept").read_text() == "x\n"
        assert "root:x:0:0" in (place / "flow/users").read_text()
        with pytest.raises(Error, match="is running"):
            CONTAINERS.run_step(cm, "start", told, [], False)
    finally:
        ended = subprocess.run([buildah, "rm", told["name"]], capture_output=True, timeout=HANG_S)
    assert ended.returncode == 0
    # Without one that is kept, each command has a container of its own, and none is left.
    assert run("ls /tmp > new") == 0
    assert "kept" not in (place / "flow/new").read_text()
    left = subprocess.run([buildah, "containers", "-q"], capture_output=True, timeout=HANG_S)
    assert left.stdout == b""


def test_remedies_of_each_engine_stand_as_make_takes_them() -> None:
    for engine in engines.NAMES:
        for words, _ in launch._CAUSES:
            told = CONTAINERS._in_variables(launch.cause_of(words[0], engine))
            assert told
            assert "--docker" not in told
            assert '"docker"' not in told
