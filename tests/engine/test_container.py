"""Runs in containers: the text of images, engines that only pretend, folders, users, secrets."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cmind.cli import parse as cmind_parse
from hypothesis import given, settings
from hypothesis import strategies as st

from cmbench.container import engines, launch, mounts, options, recipe, systems
from cmbench.container.command import inner_words
from cmbench.container.engines import ContainerJob, ContainerProgram
from cmbench.container.mounts import Mount
from cmbench.container.recipe import PYTHON_PACKAGES, ContainerRecipe, containerfile, definition
from cmbench.errors import Error
from cmbench.format.model import Request, Tags
from cmbench.index.select import parse_tags
from lab import Lab, Result
from support import HANG_S, ROOT, python_env

FAKE = """#!{python} -IS
import json, os, sys, time
from pathlib import Path
here = Path({folder!r})
name, words = Path(sys.argv[0]).name, sys.argv[1:]
told = json.loads((here / "told.json").read_text()).get(name, {{}})
kind = next((w for w in words if w in ("info", "inspect", "--version", "build", "run", "exec",
                                       "from", "rm", "stop")), "")
with open(here / "calls.jsonl", "a") as stream:
    keys = ("http_proxy", "GH_TOKEN", "CM_SCRIPT_EXTRA_CMD", "APPTAINERENV_http_proxy",
            "APPTAINERENV_CM_REPOS", "DOCKER_BUILDKIT")
    env = {{key: os.environ[key] for key in keys if key in os.environ}}
    stream.write(json.dumps({{"engine": name, "kind": kind, "words": words, "env": env}}) + "\\n")
print(told.get(kind + " says", "9.9.9 [name=seccomp] false"), flush=True)
time.sleep(told.get(kind + " sleeps", 0))
sys.exit(told.get(kind, 0))
"""


class Shop:
    """A folder with engines that write down how they are called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._told: dict[str, dict[str, Any]] = {}
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))
        for name in (*recipe_keys(), "SUDO_UID", "SUDO_GID", "GH_TOKEN", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(folder.parent))

    def has(self, name: str, **told: Any) -> None:
        """Put the engine there; ``build=1`` lets ``NAME build`` fail with 1."""
        path = self.folder / name
        path.write_text(FAKE.format(python=sys.executable, folder=str(self.folder)))
        path.chmod(0o755)
        self._told[name] = {key.replace("_", " "): value for key, value in told.items()}
        (self.folder / "told.json").write_text(json.dumps(self._told))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def words(self, kind: str) -> list[str]:
        """The words of the only call of that kind."""
        found: list[list[str]] = [call["words"] for call in self.calls if call["kind"] == kind]
        assert len(found) == 1, self.calls
        return found[0]


def recipe_keys() -> list[str]:
    """Variables that change what a container is given."""
    names = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"]
    names += ["PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"]
    names += ["http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy"]
    return names + [name.upper() for name in names if name.endswith("proxy")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    (tmp_path / "user").mkdir()
    monkeypatch.chdir(tmp_path / "user")
    return Shop(tmp_path / "shop", monkeypatch)


@pytest.fixture
def world(lab: Lab) -> Lab:
    """A benchmark with a path to read, a path to write, and a step that needs git."""
    lab.script(
        "bench",
        "run,bench",
        customize="def preprocess(i): return {'return': 0}\n",
        input_mapping={"data": "CM_DATA", "results_dir": "CM_RESULTS", "token": "CM_HUB_TOKEN"},
        input_description={
            "data": {"desc": "what is read", "type": "path"},
            "results_dir": {"desc": "what is written", "type": "path"},
            "token": {"desc": "for the hub", "type": "str"},
        },
        deps=[{"tags": "get,git,repo"}],
        variations={
            "gpu": {"docker": {"all_gpus": "yes", "extra_run_args": "--ulimit memlock=-1"}}
        },
    )
    lab.script("get-git-repo", "get,git,repo")
    return lab


def docker(lab: Lab, tags: str = "run,bench", **flags: Any) -> Result:
    return lab.call("docker", tags=tags, **flags)


def mount_words(words: list[str]) -> dict[str, tuple[str, str]]:
    """target to (source, mode) of every ``--mount``."""
    found = {}
    for before, word in itertools.pairwise(words):
        if before == "--mount":
            (fields,) = csv.reader([word])
            values = dict(field.partition("=")[::2] for field in fields)
            target = values.get("target") or values["destination"]
            mode = "ro" if {"readonly", "ro"} & set(fields) else "rw"
            found[target] = (values["source"], mode)
    return found


# ---------------------------------------------------------------- the text


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(word, rest) of each instruction, as a builder reads a Containerfile."""
    whole = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.lstrip().startswith("#") or (not line.strip() and not whole):
            continue
        if line.endswith("\\"):
            whole += line[:-1]
            continue
        word, _, rest = (whole + line).partition(" ")
        yield word, rest
        whole = ""
    assert not whole, "the last line goes on after the end"


def unquoted(text: str) -> str:
    """What the builder makes of a value of ENV or LABEL."""
    assert text[0] == text[-1] == '"'
    assert not re.search(r'(?<!\\)(\\\\)*["$]', text[1:-1])
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def test_containerfile_has_its_parts_and_shells_can_read_them() -> None:
    text = containerfile(ContainerRecipe("debian:12", "apt", ("git", "c++"), {"a": "b"}))
    found = list(instructions(text))
    assert [word for word, _ in found] == [
        *("FROM", "RUN", "RUN", "RUN"),
        *("ENV",) * 5,
        *("WORKDIR", "ENTRYPOINT", "LABEL"),
    ]
    for word, rest in found:
        if word == "RUN":
            script = re.sub(r"--mount=\S+ ", "", rest)
            assert script.startswith("set -eu;")
            subprocess.run(["sh", "-n", "-c", script], check=True)
    install = next(rest for word, rest in found if word == "RUN")
    assert {"g++", "git", "python3-venv", "make"} <= set(install.replace(";", " ").split())
    assert json.loads(dict(found)["ENTRYPOINT"]) == [recipe.ENTER]
    env = dict(rest.split("=", 1) for word, rest in found if word == "ENV")
    assert unquoted(env["HOME"]) == recipe.HOME


def test_image_without_known_package_manager_asks_what_it_has() -> None:
    text = containerfile(ContainerRecipe("some/thing:1", "", ("git",)))
    install = next(rest for word, rest in instructions(text) if word == "RUN")
    script = re.sub(r"--mount=\S+ ", "", install)
    subprocess.run(["sh", "-n", "-c", script], check=True)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": "/nowhere"}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no package manager" in done.stderr


@pytest.mark.parametrize("manager", systems.MANAGERS)
def test_packages_reach_the_package_manager_as_words(manager: str, tmp_path: Path) -> None:
    """The RUN instruction is carried out with programs that write down their words."""
    log = tmp_path / "log"
    for name in ("apt-get", "dnf", "apk", "pacman", "zypper", "rm"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> {log}\n')
        path.chmod(0o755)
    text = containerfile(ContainerRecipe("x", manager, ("c++", "git", "libfoo~1+b")))
    install = next(rest for word, rest in instructions(text) if word == "RUN")
    script = re.sub(r"--mount=\S+ ", "", install)
    subprocess.run(["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, check=True)
    words = log.read_text().splitlines()
    assert set(systems.packages(manager, ("c++", "git", "libfoo~1+b"))) <= set(words)


def test_the_way_in_is_a_sound_script(tmp_path: Path) -> None:
    """The RUN that writes it is carried out, and what it wrote is run."""
    text = containerfile(ContainerRecipe("x", "apt"))
    write = [rest for word, rest in instructions(text) if word == "RUN"][-1]
    write = re.sub(r"(?<!\w)/(opt/cmbench|cm)/", rf"{tmp_path}/\1/", write)
    (tmp_path / "opt/cmbench").mkdir(parents=True)
    subprocess.run(["/bin/sh", "-c", write], check=True)
    python = tmp_path / "cm/home/python/bin"
    python_of_the_image = tmp_path / "opt/cmbench/bin/python"
    python_of_the_image.parent.mkdir()
    python_of_the_image.write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"; >"$3/bin/pip"; chmod 755 "$3/bin/pip"\n'
    )
    python_of_the_image.chmod(0o755)
    enter = tmp_path / "opt/cmbench/enter"
    env = {"HOME": str(tmp_path / "cm/home"), "PATH": os.defpath}
    odd = ["printf", "%s|", "a b", "$(exit 9)", "'", '"', "*", "\\"]
    done = subprocess.run([str(enter), *odd], env=env, capture_output=True, text=True)
    assert done.stdout == "a b|$(exit 9)|'|\"|*|\\|"
    shown = subprocess.run([str(enter), "sh", "-c", "echo $PATH"], env=env, capture_output=True)
    assert shown.stdout.decode().startswith(str(python) + ":")
    assert (python / "pip").exists()
    failed = subprocess.run([str(enter), "sh", "-c", "exit 7"], env=env)
    assert failed.returncode == 7
    then = [str(enter), "--then-shell", "sh", "-c", "exit 7"]
    shell = subprocess.run(then, env=env, input="echo inside\n", capture_output=True, text=True)
    assert "ended with status 7" in shell.stdout
    assert shell.stdout.endswith("inside\n")


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3": 0}, "python3"),
        ({"python3": 1, "python3.11": 0}, "python3.11"),
        ({"python3": 1}, ""),
        ({}, ""),
    ],
)
def test_the_image_must_have_a_new_python(
    tmp_path: Path, pythons: dict[str, int], taken: str
) -> None:
    """The RUN is carried out up to where it makes the Python of cmbench; 1 is an old one."""
    for name, old in pythons.items():
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\n[ "$1" != -c ] || exit {old}\necho "{name} $*"; exit 9\n')
        path.chmod(0o755)
    runs = [
        rest
        for word, rest in instructions(containerfile(ContainerRecipe("x", "apt")))
        if word == "RUN"
    ]
    script = re.sub(r"--mount=\S+ ", "", runs[1])
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout == (f"{taken} -m venv /opt/cmbench\n" if taken else "")
    assert ("Python 3.10 or newer" in done.stderr) == (not taken)


def test_definition_for_apptainer_has_the_same_steps() -> None:
    asked = ContainerRecipe("docker.io/library/debian:12-slim", "apt", ("git",))
    text = definition(asked)
    assert text.splitlines()[1:3] == ["Bootstrap: docker", f"From: {asked.base}"]
    post = text.partition("%post")[2].partition("%environment")[0]
    subprocess.run(["sh", "-n", "-c", post], check=True)
    for word, rest in instructions(containerfile(asked)):
        if word == "RUN":
            last = rest.rpartition(";")[2].strip()
            assert last in post
    with pytest.raises(Error, match="bake"):
        definition(ContainerRecipe("x", "apt", baked="/cache"))


ANY_LINE = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]))


@given(ANY_LINE)
def test_values_of_labels_survive_the_builder(value: str) -> None:
    text = containerfile(ContainerRecipe("x", "apt", labels={"key": value}))
    label = next(rest for word, rest in instructions(text) if word == "LABEL")
    assert unquoted(label.removeprefix("key=")) == value


@given(st.text().filter(lambda name: not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+._:/=~-]*", name)))
def test_odd_names_of_packages_are_refused(name: str) -> None:
    with pytest.raises(Error, match="not a valid package name"):
        systems.packages("apt", [name])


@pytest.mark.parametrize(
    ("image", "system", "version", "found"),
    [
        ("", "", "", ("docker.io/library/debian:12-slim", "apt")),
        ("", "ubuntu", "22.04", ("docker.io/library/ubuntu:22.04", "apt")),
        ("", "rhel", "10", ("registry.access.redhat.com/ubi10/ubi", "dnf")),
        (
            "nvcr.io/nvidia/x:24.04-ubuntu22.04",
            "",
            "",
            ("nvcr.io/nvidia/x:24.04-ubuntu22.04", "apt"),
        ),
        ("me/own:1", "", "", ("me/own:1", "")),
        ("me/own:1", "fedora", "", ("me/own:1", "dnf")),
        ("a.b:5000/c/d@sha256:" + "0" * 64, "", "", ("a.b:5000/c/d@sha256:" + "0" * 64, "")),
    ],
)
def test_base_images(image: str, system: str, version: str, found: tuple[str, str]) -> None:
    assert systems.base_image(image, system, version) == found


@pytest.mark.parametrize(
    "image", ["a b", "x\nRUN evil", "$(x)", "-v", "", "x;y", "a//b", "@sha256:0"]
)
def test_odd_names_of_images_are_refused(image: str) -> None:
    if image:
        with pytest.raises(Error, match="not a valid image name"):
            systems.base_image(image, "", "")


def test_systems_without_a_new_python_are_refused() -> None:
    with pytest.raises(Error, match=r"no Python 3\.10"):
        systems.base_image("", "ubuntu", "20.04")
    with pytest.raises(Error, match="not known") as caught:
        systems.base_image("", "ubunut", "")
    assert "ubuntu" in caught.value.hint


def test_requirements_are_those_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text.partition("\ndependencies = [")[2].partition("]")[0]
    assert tuple(re.findall('"(.*?)"', block)) == PYTHON_PACKAGES


# ---------------------------------------------------------------- words


@settings(deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
            lambda n: n not in ("cmd", "out")
        ),
        st.one_of(
            ANY_LINE.map(str.strip), st.booleans(), st.lists(st.sampled_from(["a", "b c", "$d"]))
        ),
        max_size=4,
    ),
    st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,8}", fullmatch=True), ANY_LINE.map(str.strip)),
)
def test_the_inner_command_says_what_the_user_said(flags: Any, env: Any) -> None:
    reserved = {
        "artifact",
        "artifacts",
        "action",
        "automation",
        "tags",
        "path",
        "env",
        "unparsed_cmd",
    }
    flags = {key: value for key, value in flags.items() if key not in reserved}
    asked = {**flags, **({"env": env} if env else {})}
    words, hidden = inner_words("get,x", "", asked, Request(tags=Tags()))
    assert words[:3] == ("cm", "run", "script")
    assert shlex.split(shlex.join(words)) == list(words)
    parsed = cmind_parse([*words[1:], *hidden])["cm_input"]
    found = {key: value for key, value in parsed.items() if key not in ("cmd", "action")}
    assert found == {"automation": "script", "tags": "get,x", **asked}


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)
)
def test_printed_commands_mean_the_same_to_a_shell(words: list[str]) -> None:
    line = shlex.join(["printf", "%s\\0", *words])
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True)
    assert done.stdout.decode().split("\0")[:-1] == words


@given(st.lists(ANY_LINE.filter(bool), min_size=1))
def test_fields_of_mounts_survive(fields: list[str]) -> None:
    assert next(csv.reader([engines._fields(*fields)])) == fields


# ---------------------------------------------------------------- folders

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda p: "/d/" + "/".join(p))


@given(st.lists(st.builds(Mount, PATHS, st.just(""), st.booleans()), max_size=8), PATHS)
def test_folders_left_out_change_nothing(given_mounts: list[Mount], path: str) -> None:
    same = [Mount(m.source, m.source, m.writable) for m in given_mounts]

    def seen(those: list[Mount]) -> Any:
        around = [m for m in those if path == m.target or path.startswith(m.target + "/")]
        deepest = max((len(m.target) for m in around), default=0)
        return [any(m.writable for m in around if len(m.target) == deepest)] if around else []

    ordered = mounts._ordered(same)
    assert seen(ordered) == seen(same)
    assert [m.target for m in ordered] == sorted(
        (m.target for m in ordered), key=lambda target: target.split("/")
    )


@pytest.mark.parametrize(
    "path", ["/", "/usr", "/usr/bin", "/etc", "/proc/1", "/cm/home", "/dev/shm"]
)
def test_parts_of_the_image_are_not_hidden(path: str) -> None:
    assert mounts._hides(path)


@pytest.mark.parametrize("path", ["/data", "/home/me/x", "/opt/data", "/usr/share/x", "/mnt"])
def test_other_folders_may_be_mounted(path: str) -> None:
    assert not mounts._hides(path)


def test_inputs_are_mounted_where_they_are(world: Lab, shop: Shop, tmp_path: Path) -> None:
    shop.has("docker", inspect=1)
    data, out = tmp_path / "my data,1", tmp_path / "new" / "results"
    data.mkdir()
    result = docker(world, data=str(data), results_dir=str(out))
    assert result.answer["return"] == 0, result.err
    found = mount_words(shop.words("run"))
    assert found[str(data)] == (str(data), "ro")
    assert found[str(out)] == (str(out), "rw")
    assert out.is_dir()
    assert found[str(tmp_path / "user")] == (str(tmp_path / "user"), "rw")
    assert found[str(world.repo)] == (str(world.repo), "ro")
    assert found[recipe.HOME][1] == "rw"
    words = shop.words("run")
    assert words[-3:] == ["--tags=run,bench", f"--data={data}", f"--results_dir={out}"]
    assert "ro " + str(data) in result.out
    assert result.out.index("mounts") < result.out.index("building the image")


def test_an_interpreter_is_that_of_the_image(world: Lab, shop: Shop) -> None:
    spec = {"python": {"desc": "interpreter", "type": "path"}}
    world.script("run-on-it", input_mapping={"python": "PY"}, input_description=spec)
    shop.has("docker", inspect=1)
    result = docker(world, "run,on,it", python="/opt/conda/bin/python")
    assert result.answer["return"] == 0, result.err
    words = shop.words("run")
    assert "/opt/conda/bin/python" not in mount_words(words)
    assert words[-1] == "--python=/opt/conda/bin/python"


def test_relative_paths_are_meant_from_where_the_user_is(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    Path("d").mkdir()
    assert docker(world, data="d").answer["return"] == 0
    assert f"--data={Path('d').absolute()}" in shop.words("run")


def test_data_that_is_not_there(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    result = docker(world, data="/no/such/folder")
    assert result.answer["return"] == 4
    assert "--data=/no/such/folder does not exist on this machine" in result.err
    assert not [call for call in shop.calls if call["kind"] in ("build", "run")]


def test_input_that_would_hide_the_image(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    result = docker(world, data="/usr/bin")
    assert "would hide part of the image" in result.err


def test_home_is_not_mounted_for_being_the_current_folder(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.has("docker")
    monkeypatch.chdir(os.environ["HOME"])
    result = docker(world)
    assert os.environ["HOME"] not in mount_words(shop.words("run"))
    assert "is not mounted: it contains too much" in " ".join(result.out.split())


def test_mounts_of_flags_and_meta(world: Lab, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    world.script(
        "other",
        "run,other",
        input_mapping={"data": "CM_DATA"},
        input_description={"data": {"desc": "x", "type": "str"}},
        docker={
            "docker_input_mapping": {"data": "CM_DATA"},
            "mounts": ["${{ CM_DATA }}:/data:rw", "${{ CM_UNSET }}:/lost"],
        },
    )
    shop.has("docker")
    big = str(tmp_path / "big")
    result = docker(world, "run,other", data=big, docker_mounts=f"{big}:/also")
    found = mount_words(shop.words("run"))
    assert found["/data"] == (big, "rw")
    assert found["/also"] == (big, "ro")
    assert "/lost" not in found
    assert "are left out: CM_UNSET" in " ".join(result.out.split())


# ---------------------------------------------------------------- engines


def test_the_first_engine_that_answers_is_taken(world: Lab, shop: Shop) -> None:
    shop.has("docker", info=1, info_says="Cannot connect to the Docker daemon")
    shop.has("podman", info_says="4.9.4 true")
    result = docker(world)
    assert result.answer["engine"] == "podman"
    words = shop.words("run")
    at = words.index("--userns")
    who = f"{os.getuid()}:{os.getgid()}"
    assert words[at : at + 4] == ["--userns", "keep-id", "--user", who]


def test_no_engine_says_what_was_tried_and_what_to_install(world: Lab, shop: Shop) -> None:
    shop.has("docker", info=1, info_says="Cannot connect to the Docker daemon")
    shop.has("apt-get")
    result = docker(world)
    assert result.answer["code"] == "no-engine"
    assert "docker: exit status 1: Cannot connect to the Docker daemon" in result.err
    assert "podman: not on PATH" in result.err
    assert "apt-get install -y podman" in result.err


def test_an_engine_that_is_asked_for_and_missing(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    result = docker(world, engine="podman")
    assert result.answer["code"] == "no-engine"
    assert "podman cannot be used" in result.err
    result = docker(world, docker_engine="dokcer")
    assert 'did you mean "docker"' in result.err


@pytest.mark.parametrize("rootless", [False, True])
def test_results_of_docker_belong_to_the_user(world: Lab, shop: Shop, rootless: bool) -> None:
    shop.has("docker", info_says=f"25.0 [{'name=rootless' if rootless else 'name=seccomp'}]")
    assert docker(world).answer["return"] == 0
    words = shop.words("run")
    user = words[words.index("--user") + 1]
    assert user == ("0:0" if rootless else f"{os.getuid()}:{os.getgid()}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody who used sudo")
def test_results_belong_to_who_called_sudo(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    shop.has("docker", inspect=1)
    out = tmp_path / "a" / "results"
    assert docker(world, results_dir=str(out)).answer["return"] == 0
    words = shop.words("run")
    assert words[words.index("--user") + 1] == "1234:1235"
    homes = list((world.home / "cmbench/containers").glob("*/home-1234"))
    made = Path(shop.words("build")[-1]).parent
    those = (out, out.parent, made.parent, *made.rglob("*"), *homes, *homes[0].rglob("*"))
    for path in those:
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235), path


def test_docker_builds_then_runs(world: Lab, shop: Shop) -> None:
    shop.has("docker", image=1, inspect=1)
    result = docker(world, tags="run,bench,_gpu", docker_shm_size="8g", docker_port_maps="80:80")
    assert result.answer["return"] == 0, result.err
    assert [call["kind"] for call in shop.calls] == ["info", "inspect", "build", "run"]
    build, words = shop.words("build"), shop.words("run")
    image = result.answer["image"]
    assert build[build.index("--tag") + 1] == image
    assert Path(build[build.index("--file") + 1]).read_text() == result.answer["containerfile"]
    assert image in words
    assert words[words.index("--gpus") + 1] == "all"
    assert words[words.index("--shm-size") + 1] == "8g"
    assert words[words.index("--ulimit") + 1] == "memlock=-1"
    assert words[words.index("--publish") + 1] == "80:80"
    assert words[words.index("--hostname") + 1] == os.uname().nodename
    assert "--rm" in words
    shown = " ".join(result.out.split())
    assert "also GPUs: all, port 80:80, --ulimit memlock=-1" in shown
    assert " git " in result.answer["containerfile"].replace("\n", " ")


def test_a_plan_shows_the_container_of_its_run(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    flags = {"docker_os": "ubuntu", "engine": "docker", "data": str(shop.folder)}
    planned = world.plan("run,bench", docker=True, why=True, **flags)
    container = planned.answer["container"]
    assert container["command"][3:] == ["--tags=run,bench", f"--data={shop.folder}"]
    assert container["containerfile"] == docker(world, print=True, **flags).answer["containerfile"]
    assert planned.answer["plan"]["root"]["script"] == "bench"
    assert "base     docker.io/library/ubuntu" in planned.out
    assert not {"build", "run"} & {call["kind"] for call in shop.calls}
    whole = world.plan("run,bench", docker=True, print=True, **flags)
    assert "-- commands; nothing was written or started" in whole.out
    assert "container" not in world.plan("run,bench", docker="no").answer
    assert "neither yes nor no" in world.run("run,bench", docker="maybe").err


@pytest.mark.parametrize("verb", ["docker", "dockerfile"])
def test_the_flag_is_no_news_to_what_is_for_containers(world: Lab, shop: Shop, verb: str) -> None:
    shop.has("docker")
    answer = world.call(verb, tags="run,bench", docker=True, print=True).answer
    assert answer["engine"] == "docker"


def test_a_flag_of_containers_alone_says_which_command_takes_it(world: Lab, shop: Shop) -> None:
    failed = world.run("run,bench", docker_os="ubuntu")
    assert failed.answer["code"] == "unknown-flag"
    assert "cm docker script ..." in failed.err


def test_an_image_that_is_there_is_not_built_again(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    docker(world)
    assert "build" not in [call["kind"] for call in shop.calls]
    docker(world, docker_cache="no")
    assert {"--no-cache", "--pull"} <= set(shop.words("build"))


def test_apptainer(world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    shop.has("apptainer", version_says="apptainer version 1.3.0")
    result = docker(world, engine="apptainer", tags="run,bench,_gpu")
    assert result.answer["return"] == 0, result.err
    build, words = shop.words("build"), shop.words("exec")
    assert Path(build[-1]).read_text().startswith("# Written by cmbench")
    assert build[-2].endswith(".sif")
    assert "--cleanenv" in words
    assert "--nv" in words
    assert recipe.HOME not in mount_words(words)
    home = words[words.index("--home") + 1].partition(":")
    assert home[2] == recipe.HOME
    assert Path(home[0], "CM", "repos.json").is_file()
    assert words[words.index(build[-2]) + 1 :][:3] == [recipe.ENTER, "cm", "run"]
    env = next(call["env"] for call in shop.calls if call["kind"] == "exec")
    assert env["APPTAINERENV_http_proxy"] == "http://proxy:3128"
    assert env["APPTAINERENV_CM_REPOS"] == recipe.CM_HOME


def test_buildah_leaves_no_container(world: Lab, shop: Shop) -> None:
    shop.has("buildah", version_says="buildah version 1.33", run=3)
    result = docker(world, engine="buildah")
    assert result.answer["return"] == 3
    kinds = [call["kind"] for call in shop.calls]
    assert kinds[-3:] == ["from", "run", "rm"]
    assert shop.words("rm")[-1] == shop.words("from")[2]


def test_a_detached_container_runs_on_its_own(world: Lab, shop: Shop) -> None:
    shop.has("docker", inspect=1)
    result = docker(world, docker_dt=True)
    assert result.answer["return"] == 0, result.err
    assert [call["kind"] for call in shop.calls][-1] == "run"
    words = shop.words("run")
    assert {"--detach", "--tty"} <= set(words)
    assert "--rm" not in words
    image = words.index(result.answer["image"])
    assert words[image + 1 : image + 4] == ["cm", "run", "script"]
    name = words[words.index("--name") + 1]
    assert f"logs --follow {name}" in result.out
    assert f"container stop {name}" in result.out
    assert f"container rm {name}" in result.out


def test_a_container_is_kept_for_further_commands(world: Lab, shop: Shop) -> None:
    shop.has("podman", inspect=1, info_says="4.9.4 false")
    result = docker(world, engine="podman", docker_keep_alive=True)
    assert result.answer["return"] == 0, result.err
    started, words = shop.words("run"), shop.words("exec")
    name = started[started.index("--name") + 1]
    assert started[-3:-1] == ["sh", "-c"]
    assert words[: words.index("cm")] == ["exec", name, recipe.ENTER]
    assert f"exec --interactive --tty {name} {recipe.ENTER} bash" in result.out
    assert "logs" not in result.out


def test_both_run_in_the_background_and_stay(world: Lab, shop: Shop) -> None:
    shop.has("docker", inspect=1)
    docker(world, docker_detached=True, docker_keep_alive=True)
    words = shop.words("run")
    command = words[words.index("-c") + 1 :]
    assert command[2:5] == ["cm", "run", "script"]
    process = subprocess.Popen(
        ["/bin/sh", "-c", command[0], "sh", "echo", "a $(b)"],
        env={"PATH": os.defpath},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        assert said == ["a $(b)\n", "ended with status 0\n"]
        process.terminate()
        assert process.wait(HANG_S) == 0, "an engine's stop ends it at once"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert "exec" not in [call["kind"] for call in shop.calls]


def test_a_container_that_cannot_start_is_not_left(world: Lab, shop: Shop) -> None:
    shop.has("docker", inspect=1, run=125)
    result = docker(world, docker_keep_alive=True)
    assert result.answer["code"] == "container-failed"
    assert [call["kind"] for call in shop.calls][-2:] == ["stop", "rm"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"docker_dt": True, "docker_it": True}, "exclude each other"),
        ({"docker_keep_alive": True, "docker_it": True}, "exclude each other"),
        ({"docker_dt": True, "engine": "buildah"}, "runs nothing in the background"),
        ({"docker_keep_alive": True, "engine": "apptainer"}, "keeps no container"),
    ],
)
def test_containers_that_cannot_stay(
    world: Lab, shop: Shop, flags: dict[str, Any], says: str
) -> None:
    for name in ("docker", "buildah", "apptainer"):
        shop.has(name, version_says="version 1.33")
    result = docker(world, **flags)
    assert result.answer["code"] == "bad-value"
    assert says in result.err
    assert "build" not in [call["kind"] for call in shop.calls]


def test_status_of_the_command_comes_back(world: Lab, shop: Shop) -> None:
    shop.has("docker", run=16)
    result = docker(world)
    assert result.answer["return"] == 16
    assert "ended with status 16" in result.err
    shop.has("docker", run=125)
    assert "docker could not start the container" in docker(world).err


def test_a_build_that_fails_names_cause_and_log(world: Lab, shop: Shop) -> None:
    shop.has("docker", inspect=1, build=1, build_says="ERROR: x: manifest unknown")
    result = docker(world, base_image="me/none:1")
    assert result.answer["code"] == "image-failed"
    assert "manifest unknown" in result.err
    assert "does not exist under this name" in result.err
    log = re.search(r"log: +(\S+)", result.err)
    assert log is not None
    assert "manifest unknown" in Path(log[1]).read_text()
    assert "run" not in [call["kind"] for call in shop.calls]


def test_from_python_the_output_comes_back(world: Lab, shop: Shop) -> None:
    shop.has("docker", run_says="hello")
    answer = world.call("docker", tags="run,bench", out="json").answer
    assert answer["output"] == ["hello"]


def test_an_interruption_ends_the_container(world: Lab, shop: Shop) -> None:
    shop.has("docker", run_sleeps=30)
    code = f"""
import sys
from pathlib import Path
from lab import Lab
lab = Lab.__new__(Lab)
lab.home, lab.repo, lab.others = Path({str(world.home)!r}), Path({str(world.repo)!r}), []
sys.exit(lab.call("docker", tags="run,bench").answer["return"])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=python_env(), start_new_session=True
    )
    while not any(call["kind"] == "run" for call in shop.calls):
        _wait(process)
    process.terminate()
    assert process.wait(HANG_S) == 130
    assert shop.words("stop")[-1] == shop.words("run")[shop.words("run").index("--name") + 1]


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(0.1)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError("it ended before it began")


# ---------------------------------------------------------------- what is handed over


def test_secrets_are_nowhere_to_be_read(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://me:pa55w0rd@proxy:3128")
    shop.has("docker", inspect=1)
    secrets = ("pa55w0rd", "t0p5ecret", "hub5ecret", "gh5ecret")
    result = docker(
        world,
        token="hub5ecret",
        env={"CM_API_TOKEN": "t0p5ecret"},
        docker_gh_token="gh5ecret",
    )
    assert result.answer["return"] == 0, result.err
    words = json.dumps([call["words"] for call in shop.calls])
    files = [p.read_text() for p in world.home.rglob("*") if p.is_file() and p.suffix != ".db"]
    answer = json.dumps(result.answer)
    for secret in secrets:
        for place in (words, result.out, answer, *files):
            assert secret not in place
    run = next(call for call in shop.calls if call["kind"] == "run")
    assert run["env"]["GH_TOKEN"] == "gh5ecret"
    hidden = {"--env.CM_API_TOKEN=t0p5ecret", "--token=hub5ecret"}
    assert set(run["env"]["CM_SCRIPT_EXTRA_CMD"].split()) == hidden
    for name in ("http_proxy", "GH_TOKEN", "CM_SCRIPT_EXTRA_CMD"):
        assert name in run["words"]
    build = shop.words("build")
    assert build[build.index("--build-arg") + 1] == "http_proxy"


def test_private_certificates_are_lent_and_not_stored(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own.pem").write_text("MY CERTIFICATE")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    shop.has("docker", inspect=1)
    result = docker(world)
    build = shop.words("build")
    assert build[build.index("--secret") + 1] == f"id=cmbench_ca,src={tmp_path / 'own.pem'}"
    assert mount_words(shop.words("run"))[recipe.CERTIFICATES] == (str(tmp_path / "own.pem"), "ro")
    assert str(tmp_path) not in result.answer["containerfile"]
    context = Path(build[-1])
    assert list(context.iterdir()) == []


def test_a_proxy_on_this_machine_needs_its_network(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    shop.has("docker", inspect=1)
    docker(world)
    for kind in ("build", "run"):
        words = shop.words(kind)
        assert words[words.index("--network") + 1] == "host"


def test_offline_runs_have_no_network(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    docker(world, offline=True)
    words = shop.words("run")
    assert words[words.index("--network") + 1] == "none"
    assert words[-1] == "--offline"


# ---------------------------------------------------------------- flags, meta, cache


def test_print_writes_and_starts_nothing(world: Lab, shop: Shop) -> None:
    shop.has("docker")
    before = sorted(str(path) for path in world.home.rglob("*"))
    result = docker(world, print=True, results_dir="out")
    assert result.answer["return"] == 0, result.err
    assert {call["kind"] for call in shop.calls} == {"info"}
    assert sorted(str(path) for path in world.home.rglob("*")) == before
    assert not Path("out").exists()
    assert result.answer["containerfile"] in result.out
    shown = [shlex.split(line) for line in result.out.splitlines() if " run --rm " in line]
    assert shown == [result.answer["commands"][1]]


def test_print_needs_no_engine(world: Lab, shop: Shop) -> None:
    assert "FROM docker.io/library/debian" in docker(world, print=True).out


def test_the_same_plan_gives_the_same_text(world: Lab, shop: Shop, tmp_path: Path) -> None:
    texts = {docker(world, print=True).answer["containerfile"] for _ in range(3)}
    other = Lab.__new__(Lab)
    other.home, other.others = tmp_path / "another home", []
    other.repo = tmp_path / "moved"
    shutil.copytree(world.repo, other.repo)
    texts.add(docker(other, print=True).answer["containerfile"])
    assert len(texts) == 1


def test_meta_of_other_collections_is_honoured(world: Lab, shop: Shop) -> None:
    world.script(
        "vendor",
        "run,vendor",
        docker={
            "real_run": False,
            "os": "ubuntu",
            "os_version": "22.04",
            "extra_sys_deps": "numactl",
            "extra_run_args": " --cap-add SYS_ADMIN",
            "deps": [{"tags": "get,x"}],
            "use_host_user_id": True,
        },
        variations={"big": {"docker": {"base_image": "me/big:1-ubuntu", "shm_size": "32gb"}}},
    )
    shop.has("docker")
    result = docker(world, "run,vendor")
    assert "FROM docker.io/library/ubuntu:22.04" in result.answer["containerfile"]
    assert " numactl " in result.answer["containerfile"]
    assert shop.words("run")[-5:][0] != "--cap-add"
    assert "--cap-add" in shop.words("run")
    assert "asks for deps" in result.out
    big = docker(world, "run,vendor,_big", print=True)
    assert "FROM me/big:1-ubuntu" in big.answer["containerfile"]
    assert "--shm-size 32gb" in big.out
    own = docker(world, "run,vendor,_big", print=True, base_image="me/own:2")
    assert "FROM me/own:2" in own.answer["containerfile"]


def test_scripts_that_are_not_for_containers(world: Lab, shop: Shop) -> None:
    world.script("hostonly", "run,hostonly", docker={"run": False})
    shop.has("docker")
    assert "not for containers" in docker(world, "run,hostonly").err
    assert docker(world, "run,hostonly", docker_run="yes").answer["return"] == 0


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("docker_bas_image", "x", 'did you mean "docker_base_image"'),
        ("docker_cm_repo", "x", "registered here are mounted"),
        ("docker_cached", "always", "bake"),
        ("docker_num_gpus", "two", "is not a number"),
        ("docker_base_image", True, "needs a value"),
        ("docker_mounts", "relative", "is not a mount"),
        ("docker_extra_run_args", "'", "No closing quotation"),
        ("docker_env", "A-B", "not a valid variable name"),
        ("docker_it", True, "needs a terminal"),
        ("dat", "x", 'did you mean "data"'),
    ],
)
def test_flags_that_cannot_be(
    world: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch, flag: str, value: Any, says: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    shop.has("docker")
    result = docker(world, **{flag: value})
    assert result.answer["return"] != 0
    assert says in " ".join(result.err.split())
    assert "run" not in [call["kind"] for call in shop.calls]


def test_an_input_of_the_script_wins_over_a_short_flag(world: Lab, shop: Shop) -> None:
    world.script(
        "motor",
        "run,motor",
        input_mapping={"engine": "CM_ENGINE"},
        input_description={"engine": {"desc": "x", "type": "str"}},
    )
    shop.has("podman", info_says="4.9 false")
    assert docker(world, "run,motor", engine="steam").answer["engine"] == "podman"
    assert shop.words("run")[-1] == "--engine=steam"


def test_cache_entries_are_mounted_or_baked(world: Lab, shop: Shop) -> None:
    world.script(
        "get-data",
        "get,data",
        cache=True,
        customize=(
            "import os\n"
            "def postprocess(i):\n"
            "    open('d.txt', 'w').write('data')\n"
            "    os.chmod('d.txt', 0o600)\n"
            "    i['env']['CM_D'] = os.path.abspath('d.txt')\n"
            "    return {'return': 0}\n"
        ),
        new_env_keys=["CM_D"],
    )
    world.script(
        "use-data",
        "use,data",
        deps=[{"tags": "get,data"}],
        docker={"mounts": ["${{ CM_D }}:/d.txt"]},
    )
    made = Path(world.run("get,data").env["CM_D"])
    shop.has("docker", inspect=1)
    root = str(world.home / "cmbench")
    docker(world, "use,data")
    words = shop.words("run")
    assert mount_words(words)[root + "/v1"] == (root + "/v1", "ro")
    assert f"CMBENCH_SHARED={root}" in words
    assert mount_words(words)["/d.txt"] == (str(made), "ro")
    (shop.folder / "calls.jsonl").unlink()
    result = docker(world, "use,data", docker_cached="bake")
    copies = [rest for word, rest in instructions(result.answer["containerfile"]) if word == "COPY"]
    assert [json.loads(rest) for rest in copies] == [["cache/", root + "/v1/"]]
    baked = Path(shop.words("build")[-1]) / "cache"
    copy = baked / made.relative_to(root + "/v1")
    assert copy.read_text() == "data"
    assert copy.stat().st_mode & 0o444 == 0o444
    assert len(list(baked.glob("entries/*/*.json"))) == 1
    (shop.folder / "calls.jsonl").unlink()
    docker(world, "use,data", docker_cached="none")
    assert not [word for word in shop.words("run") if "CMBENCH_SHARED" in word]


def test_help_names_every_flag_within_80_columns(world: Lab, shop: Shop) -> None:
    result = docker(world, help=True)
    assert result.out == world.call("docker", help=True).out
    for name in options.FLAGS:
        assert f"--docker_{name} " in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_causes_are_found_in_what_engines_say() -> None:
    found = partial(launch.cause_of, engine="podman")
    assert "does not exist under this name" in found("reading manifest: manifest unknown")
    assert "network" in found("dial tcp: lookup x: no such host")
    assert found("step 3 failed") == ""
    said = "RUN apt-get install ca-certificates\ndid not get container create message: EOF"
    assert "--docker_engine=buildah" in found(said)
    assert "SSL_CERT_FILE" in found("tls: failed to verify certificate: unknown")


@pytest.mark.parametrize("engine", engines.NAMES)
def test_a_remedy_is_one_of_the_engine_that_failed(engine: str) -> None:
    others = {*engines.NAMES} - {engine}
    for said in ("no space left on device", "dial tcp: no such host", "unauthorized"):
        hint = launch.cause_of(said, engine)
        assert f"{engine} " in hint
        assert not [name for name in others if f"{name} " in hint]
    # Buildah is not sent to itself.
    assert "--docker_engine=buildah" not in launch.cause_of("error running container", "buildah")


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('exec: "newuidmap": executable file not found in $PATH', "package uidmap"),
        ('no subuid ranges found for user "me" in /etc/subuid', "sudo usermod --add-subuids"),
        ("Error during unshare(CLONE_NEWUSER): Operation not permitted", "user namespaces"),
        ("kernel does not support overlay fs: unable to create", "export STORAGE_DRIVER=vfs"),
        ("open /etc/containers/policy.json: no such file or directory", "containers-common"),
        ("unknown flag: --secret", "is too old"),
    ],
)
def test_what_buildah_lacks_has_its_remedy(said: str, remedy: str) -> None:
    assert remedy in launch.cause_of(said, "buildah")


def test_what_has_no_effect_under_buildah_is_said(world: Lab, shop: Shop) -> None:
    shop.has("buildah", version_says="buildah version 1.33")
    shop.has("podman", inspect=1, info_says="4.9.4 false")
    told = "GPUs, limits, capabilities, devices have no effect"
    flags = {"docker_all_gpus": True, "docker_shm_size": "1g"}
    assert told in " ".join(docker(world, engine="buildah", **flags).out.split())
    assert told not in " ".join(docker(world, engine="buildah").out.split())
    assert told not in " ".join(docker(world, engine="podman", **flags).out.split())


def test_an_engine_that_is_there_and_fails_is_not_installed_again(world: Lab, shop: Shop) -> None:
    shop.has("buildah", **{"--version": 1, "--version says": "cannot open the storage"})
    result = docker(world, engine="buildah")
    assert result.answer["code"] == "no-engine"
    assert "cannot open the storage" in result.err
    assert "install" not in result.err
    assert f"{shop.folder}/buildah --version" in result.err


def test_parsed_tags_come_back_as_they_were() -> None:
    text = "get,x,_a,_b.1,-c,-_d"
    assert str(parse_tags(text)) == text


# ---------------------------------------------------------------- for real


def small_system(folder: Path) -> None:
    """A root with a shell and a few programs of this machine, and the libraries they need."""
    for name in ("sh", "cat", "id", "touch", "uname"):
        program = Path(shutil.which(name) or "/bin/" + name)
        said = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
        libraries = [Path(found) for found in re.findall(r"(/\S+)", said)]
        for source, target in [(program, Path("/bin") / name), *((p, p) for p in libraries)]:
            copy = folder / target.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source.resolve(), copy)
    enter = folder / recipe.ENTER.lstrip("/")
    enter.parent.mkdir(parents=True)
    enter.write_text('#!/bin/sh\nexec "$@"\n')
    enter.chmod(0o755)
    (folder / "tmp").mkdir()


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The real buildah, with images of its own below ``tmp_path``."""
    program = shutil.which("buildah")
    if program is None:
        pytest.skip("buildah is not installed")
    if os.geteuid() != 0:
        pytest.skip("only root can start containers everywhere")
    storage = tmp_path / "storage.conf"
    places = f'graphroot = "{tmp_path}/images"\nrunroot = "{tmp_path}/running"\n'
    storage.write_text('[storage]\ndriver = "vfs"\n' + places)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    return program


def test_a_real_container(buildah: str, tmp_path: Path) -> None:
    """Built from this machine's own files, run as somebody else, seen from outside."""
    context, data, out = tmp_path / "context", tmp_path / "data", tmp_path / "out"
    for folder in (context, data, out):
        folder.mkdir()
    small_system(context / "root")
    (data / "in").write_text("from outside")
    tmp_path.chmod(0o755)
    for above in (tmp_path.parent, tmp_path.parent.parent):
        above.chmod(above.stat().st_mode | 0o011)
    os.chown(out, 1234, 1234)
    (tmp_path / "Containerfile").write_text("FROM scratch\nCOPY root/ /\n")
    (tmp_path / "ca").write_text("x")
    command = f"id -u; cat {data}/in; echo; echo $A; uname -n; echo kept > {out}/out"
    command += f"; touch {data}/no; exit 5"
    job = ContainerJob(
        image="localhost/cmbench/test:1",
        file=str(tmp_path / "Containerfile"),
        context=str(context),
        command=("sh", "-c", command),
        mounts=(Mount(str(data), str(data), False), Mount(str(out), str(out), True)),
        work=str(out),
        name="cmbench-test",
        host="the-machine",
        env={"A": "a $(b) 'c'"},
        secrets={"cmbench_ca": str(tmp_path / "ca")},
    )
    engine = ContainerProgram("buildah", buildah, owner=(1234, 1234))
    assert not launch.is_built(engine, job)
    launch.build(engine, job, str(tmp_path / "log"), lambda line: None)
    assert launch.is_built(engine, job)
    lines: list[str] = []
    assert launch.run(engine, job, lines.append, os.environ) == 5
    assert lines[:4] == ["1234", "from outside", "a $(b) 'c'", "the-machine"]
    assert "Read-only" in lines[4]
    assert (out / "out").read_text() == "kept\n"
    assert (out / "out").stat().st_uid == 1234
    left = subprocess.run([buildah, "containers", "-q"], capture_output=True, text=True)
    assert left.stdout == ""


def test_a_real_container_that_stays(buildah: str, tmp_path: Path) -> None:
    """Started once, two commands in it, the second sees the first; nothing is left."""
    context, out = tmp_path / "context", tmp_path / "out"
    out.mkdir()
    small_system(context / "root")
    (tmp_path / "Containerfile").write_text("FROM scratch\nCOPY root/ /\n")
    job = ContainerJob(
        image="mlperf-inference:me-latest",
        file=str(tmp_path / "Containerfile"),
        context=str(context),
        command=(),
        mounts=(Mount(str(out), "/work", True),),
        work="/work",
        name="mlperf-inference-me",
        kept=True,
    )
    engine = ContainerProgram("buildah", buildah)
    launch.build(engine, job, str(tmp_path / "log"), lambda line: None)
    assert launch.state(engine, job) == ""
    launch.begin(engine, job, os.environ)
    try:
        assert launch.state(engine, job) == "running"
        with pytest.raises(Error) as caught:
            launch.begin(engine, job, os.environ)
        assert caught.value.code == "container-exists"
        assert f"rm {job.name}" in caught.value.hint
        lines: list[str] = []
        command = ["sh", "-c", "echo one > /tmp/kept; echo two > done; exit 3"]
        assert launch.run_in(engine, job, command, lines.append, os.environ) == 3
        assert launch.run_in(engine, job, ["cat", "/tmp/kept"], lines.append, os.environ) == 0
        assert lines[-1] == "one"
        assert (out / "done").read_text() == "two\n"
    finally:
        launch.end(engine, job, os.environ)
    assert launch.state(engine, job) == ""
