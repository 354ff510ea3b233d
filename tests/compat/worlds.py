"""A place for one engine to run one collection of scripts: its homes, its Python, its search path.

Two engines get two worlds that differ in nothing but the engine, so that what their runs give back
can be compared once the paths of each world are written as words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from support import link_engine

DRIVER = Path(__file__).with_name("drivers.py")
REFUSED = (
    *("sudo", "apt", "apt-get", "dnf", "yum", "zypper", "pacman", "apk", "brew", "snap"),
    *("docker", "podman", "apptainer", "singularity", "ssh", "scp", "rsync", "systemctl"),
)
"""Programs that could change this machine or another one: each only fails."""


@dataclass(frozen=True)
class Answer:
    """What one run gave back, paths of its world replaced by words."""

    status: int
    error: str = ""
    env: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""


class World:
    """``engine`` is ``cm`` or ``mlc``; ``python`` holds it; ``own`` marks our engine."""

    def __init__(
        self, folder: Path, collection: Path, engine: str, python: str, own: bool = False
    ) -> None:
        self.folder = folder
        self.collection = collection
        self.engine = engine
        self.python = python
        self.own = own
        self._count = 0
        self._make()

    def _make(self) -> None:
        tools = self.folder / "tools"
        tools.mkdir(parents=True)
        for name in REFUSED:
            (tools / name).write_text("#!/bin/sh\nexit 1\n")
            (tools / name).chmod(0o755)
        (self.folder / "user").mkdir()
        subprocess.run(
            [sys.executable, "-m", "venv", str(self.folder / "python")],
            check=True,
            capture_output=True,
        )
        if self.own:
            self._make_repositories()

    def _make_repositories(self) -> None:
        """Our engine without our scripts, and their scripts without their engine."""
        link_engine(self.folder / "engine")
        scripts = self.folder / "collection"
        (scripts / "automation").mkdir(parents=True)
        (scripts / "script").symlink_to(self.collection / "script")
        (scripts / "cmr.yaml").write_text("alias: collection\nuid: 0123456789abcdef\n")
        if (self.collection / "meta.yaml").is_file():
            (scripts / "meta.yaml").write_text((self.collection / "meta.yaml").read_text())
        for other in (self.collection / "automation").glob("*/_cm.*"):
            if other.parent.name not in ("script", "cache"):
                link = scripts / "automation" / other.parent.name
                link.unlink(missing_ok=True)
                link.symlink_to(other.parent)

    @property
    def repositories(self) -> list[Path]:
        if self.own:
            return [self.folder / "engine", self.folder / "collection"]
        return [self.collection]

    def _home(self) -> Path:
        self._count += 1
        home = self.folder / "homes" / str(self._count)
        if self.engine == "mlc":
            # That engine writes its list of repositories, but not before it has read it.
            home.mkdir(parents=True)
            (home / "local").mkdir()
            (home / "local" / "meta.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n")
            listed = [str(home / "local"), *map(str, self.repositories)]
            (home / "repos.json").write_text(json.dumps(listed))
        else:
            local = home / "repos" / "local"
            local.mkdir(parents=True)
            (local / "cmr.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n")
            (home / "repos.json").write_text(json.dumps([str(r) for r in self.repositories]))
        return home

    def _environment(self, home: Path) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if key.startswith("PIP_") or key in ("LANG", "TERM") or key.endswith("_proxy")
        }
        path = [self.folder / "tools", self.folder / "python" / "bin", "/usr/bin", "/bin"]
        return {
            **kept,
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(self.folder / "user"),
            "USER": "tester",
            "CM_REPOS": str(home),
            "MLC_REPOS": str(home),
            "CM_CORE_SKIP_INTERNAL_REPOS": "yes",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def clean(self) -> None:
        """Remove the homes and directories of the runs so far."""
        for name in ("homes", "work"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def run(
        self,
        request: Mapping[str, Any],
        seconds: float,
        words: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        """Run ``request`` in a new home and an empty directory; ``words`` replace more places."""
        home = self._home()
        work = self.folder / "work" / str(self._count)
        work.mkdir(parents=True)
        source, target = home / "request.json", home / "answer.json"
        source.write_text(json.dumps({"quiet": True, **request}))
        process = subprocess.Popen(
            [self.python, str(DRIVER), self.engine, str(source), str(target)],
            cwd=work,
            env=self._environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Answer(124, f"not done in {seconds:g} s")
        if not target.is_file():
            return Answer(process.returncode or 1, "no answer", output=output)
        answer = json.loads(self._plain(target.read_text(), home, work, words))
        return Answer(
            int(answer["return"]),
            str(answer["error"] or ""),
            answer["new_env"] or {},
            answer["new_state"] or {},
            output,
        )

    def _plain(self, text: str, home: Path, work: Path, words: Mapping[str, str]) -> str:
        """``text`` with the paths of this world replaced by words, entries by one word."""
        entries = {
            "own": rf"{re.escape(str(home))}/cmbench/v\d+/store/[^/\"\s:]+",
            "cm": rf"{re.escape(str(home))}/repos/local/cache/[0-9a-f]+",
            "mlc": rf"{re.escape(str(home))}/local/cache/[^/\"\s:]+",
        }
        text = re.sub(entries["own" if self.own else self.engine], "<entry>", text)
        scripts = self.repositories[-1]
        places = {
            str(work): "<work>",
            str(home): "<home>",
            str(scripts): "<collection>",
            str(self.collection): "<collection>",
            str(self.folder / "python"): "<python>",
            str(self.folder / "user"): "<user>",
            str(self.folder / "fixtures"): "<fixtures>",
            str(self.folder): "<world>",
            **words,
        }
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return text
