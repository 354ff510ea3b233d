"""The lines of published guides, typed in a clean home: what happens is what our page says.

A ``make`` line goes through the script's own reading of it, with the machine's tools asked in
earnest; it ends at the first command of ``cm`` that would work for long.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import cuda_lab
from cmbench.errors import Error
from common.problems import Problem
from nvidia_flow_lab import compiled, script_of_the_words
from nvidia_mlperf.make import flow, targets, work
from shared_files import seed_index
from support import ROOT, Home, run

PAGE = ROOT / "docs/reference/guides.md"
QUOTED = re.compile(r"`([^`]+)`")
TYPED = ("cm ", "make ", "python3 ", "NVIDIA_VISIBLE_DEVICES=")
NO_DAEMON = "#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n"
ASSIGNED = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class GuideLine:
    """A row of the page."""

    line: str
    verdict: str
    here: str

    @property
    def typed(self) -> str:
        """The command that does the job of the line; the line itself where it works."""
        commands = [text for text in QUOTED.findall(self.here) if text.startswith(TYPED)]
        replaced = self.verdict == "replaced" or self.line.startswith(REPLACED)
        return commands[0] if replaced and commands else self.line

    @property
    def printed(self) -> list[str]:
        """What is to be part of its output."""
        return [text for text in QUOTED.findall(self.here) if text != self.typed]


# Lines whose job is done by another command that this machine refuses, too.
REPLACED = ("docker ", "source ", "tritonserver ", "pip list")
TITLES = re.compile(r"^## (.*)$", re.MULTILINE)


def guides() -> dict[str, tuple[list[str], list[GuideLine]]]:
    """Title of every guide: the commands before its table, and its rows."""
    parts = TITLES.split(PAGE.read_text(encoding="utf-8"))[1:]
    return {title: parsed(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def parsed(text: str) -> tuple[list[str], list[GuideLine]]:
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL)
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows]
    lines = [
        GuideLine(line.strip().strip("`").replace(r"\|", "|"), verdict.strip(), here.strip())
        for line, verdict, here in cells
    ]
    return (block[1].splitlines() if block else []), lines


class ReachedCommandError(Exception):
    """A command of ``cm`` is reached that would work for long."""


@dataclass
class Reader:
    """A reader of a guide: where they are, what they have exported."""

    home: Home
    folder: Path
    exported: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {**self.home.environment(), **self.exported}

    def type(self, line: str, plan: bool = False) -> tuple[int, str]:
        """Type a line; return its exit status and all that it prints."""
        shown = os.path.expandvars(line.replace("$HOME", self.env["HOME"]))
        words = shlex.split(shown) if "|" not in line else [line]
        if words[0] == "cd":
            self.folder /= words[1]
        elif words[0] == "export":
            name, _, value = words[1].partition("=")
            self.exported[name] = value
        elif "make" in words[:2]:
            return self.make(words)
        else:
            text = line.replace("cm run", "cm plan", 1) if plan else line
            done = run(["bash", "-c", text], cwd=self.folder, env=self.env)
            return done.status, done.stdout + done.stderr
        return 0, ""

    def make(self, words: Sequence[str]) -> tuple[int, str]:
        """Type a line of make, up to the first command that works for long."""
        given = dict(found.groups() for word in words if (found := ASSIGNED.fullmatch(word)))
        (word,) = (word for word in words if word != "make" and not ASSIGNED.fullmatch(word))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as shown:
            for name in set(os.environ) - set(self.env):
                patch.delenv(name)
            for name, value in {**self.env, **given}.items():
                patch.setenv(name, value)
            patch.syspath_prepend(str(ROOT / "script/run-harness"))
            patch.setattr(sys, "__stderr__", shown)
            patch.setattr(sys, "stderr", io.StringIO())
            return self.made(word), shown.getvalue()

    def made(self, word: str) -> int:
        script = script_of_the_words()
        script.FlowEngine = stopping(script.FlowEngine, self.folder)
        env = {"CM_NVIDIA_FLOW_TARGET": word, "CM_NVIDIA_RUN_ARGS": os.environ.get("RUN_ARGS", "")}
        try:
            script.do(env, self.folder, str(self.home.cm_repos))
        except ReachedCommandError:
            return 0
        except (Problem, Error) as problem:
            print(f"error [{problem.code}]: {problem}\n  next: {problem.hint}")
            return 1
        return 0


def stopping(engine: Any, folder: Path) -> Any:
    """The engine of the words, which runs short commands and stops at others."""

    class StoppingEngine(engine):  # type: ignore[misc]
        """Asks the machine, plans, and makes no data, model or measurement."""

        def python(self, base: str) -> list[str]:
            return [f"--env.CM_PYTHON_BIN_WITH_PATH={sys.executable}"]

        def cm(self, line: Sequence[str]) -> int:
            self.report_line(f"cm {shlex.join(line)}")
            if "compile,neuron-model" in line[2]:
                compiled_models_of(folder)
            elif "loadgen" not in line[2] and "triton-server" not in line[2]:
                raise ReachedCommandError
            return 0

        def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
            if line[0] == "plan" or "scratch,space" in line[2]:
                return dict(super().cm_json(line))
            self.report_line(f"cm {shlex.join(line)}")
            if "generate,engine" not in line[2] or "int8" in line[4]:
                raise ReachedCommandError
            return {"env": {"CM_ENGINE_FILE_WITH_PATH": str(stand_in_engine(folder.parent))}}

    return StoppingEngine


def stand_in_engine(folder: Path) -> Path:
    """What generate,engine,nvidia makes without a GPU."""
    engine = folder / "m.onnx"
    engine.write_bytes(b"a model")
    engine.with_name("m.onnx.json").write_text('{"builder": "stand-in"}')
    return engine


def compiled_models_of(folder: Path) -> None:
    """What compile,neuron-model makes without a device, for all that the folder runs."""
    settings = targets.settings(flow.read(folder), targets.INFERENTIA)
    runner: Any = script_of_the_words().FlowEngine({})
    everything = flow.Flow(folder, settings, {"RUN_ARGS": ""}, targets.INFERENTIA, runner)
    for item in work.plan(everything, "--config_ver=all").items:
        compiled(everything, item, "cpu")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A reader in a clean home, who has nvcc, and container engines without a daemon."""
    if any(Path("/dev").glob("nvidia*")):
        pytest.skip("this machine has a GPU, and the page is of one without")
    tools = tmp_path / "tools"
    cuda_lab.nvcc(tools / "nvcc", "11.8.89", tmp_path / "cuda")
    for name in ("docker", "podman"):
        (tools / name).write_text(NO_DAEMON)
        (tools / name).chmod(0o755)
    home = Home(tmp_path)
    home.register(ROOT)
    seed_index(home.cm_repos)
    folder = tmp_path / "reader"
    folder.mkdir()
    path = os.pathsep.join((str(tools), str(home.bin), os.defpath))
    return Reader(home, folder, {"PATH": path, "HOME": str(folder)})


@pytest.mark.parametrize("guide", guides())
def test_what_happens_is_what_the_page_says(guide: str, reader: Reader) -> None:
    before, lines = guides()[guide]
    archives(reader) if "BERT" in guide else None
    root = " --allow_root" if os.geteuid() == 0 else ""
    for line in before:
        status, said = reader.type(line + (root if "_workdir" in line else ""))
        assert not status, said
    differences = [text for line in lines if (text := difference(reader, line))]
    assert not differences, "\n\n".join(differences)


def archives(reader: Reader) -> None:
    """Put NVIDIA's archives where their reader has downloaded them."""
    cuda_lab.cudnn_archive(reader.folder)
    cuda_lab.tensorrt_archive(reader.folder)


def difference(reader: Reader, row: GuideLine) -> str:
    """Type the line of a row; return what differs from the page, empty if nothing does."""
    if row.verdict == "text":
        return ""
    status, said = reader.type(row.typed, row.verdict == "planned")
    plain = " ".join(said.split())
    happened = verdict(status, said)
    expected = EXPECTED.get(row.verdict, "refused")
    missing = [text for text in row.printed if text.strip() not in plain]
    if happened in expected and not missing:
        return ""
    seen = f"{happened}, the page says {row.verdict}; not printed: {missing}"
    return f"{row.typed}\n{seen}\n{said[-1500:]}"


EXPECTED: Mapping[str, tuple[str, ...]] = {
    "works": ("works",),
    "stand-in": ("stand-in",),
    "replaced": ("works", "stand-in"),
    "planned": ("works", "stand-in"),
}


def verdict(status: int, said: str) -> str:
    """What happened, in the words of the page."""
    if status:
        return "refused"
    own = [line for line in said.splitlines() if not line.startswith("cm plan ")]
    return "stand-in" if re.search("stand-in|stands in", "\n".join(own)) else "works"
