"""A small world for engine tests: a repository of scripts written on the spot, and its own home."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cmbench.cache.store import CacheStore
from cmbench.cli import dispatch as cli


@dataclass(frozen=True)
class Result:
    """What a verb returned and printed."""

    answer: dict[str, Any]
    out: str
    err: str

    @property
    def env(self) -> dict[str, Any]:
        assert self.answer["return"] == 0, self.err or self.answer
        env: dict[str, Any] = self.answer["new_env"]
        return env

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(Path(self.answer["record"]).read_text())
        return record

    @property
    def status(self) -> dict[str, str]:
        """Last status of every step by its label."""
        return {step["step"]: step["status"] for step in self.record["steps"]}


class Lab:
    """``lab.script("get-x", tags="get,x", ...)`` then ``lab.run("get,x")``."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repo = root / "repo"
        self.home.mkdir()
        self.others: list[Path] = []
        (self.repo / "script").mkdir(parents=True)
        self._count = 0

    @classmethod
    def of_checkout(cls, root: Path) -> Lab:
        """Return one whose repository is this checkout, with its index made."""
        from shared_files import seed_index
        from support import ROOT

        lab = cls(root)
        lab.repo = ROOT
        seed_index(lab.home)
        return lab

    def script(
        self,
        alias: str,
        tags: str = "",
        customize: str = "",
        run: str = "",
        files: dict[str, str] | None = None,
        **meta: Any,
    ) -> Path:
        """Write a script directory; a second call with the same alias replaces it."""
        path = self.repo / "script" / alias
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        self._count += 1
        head = {
            "alias": alias,
            "uid": f"{abs(hash(alias)):016x}"[:15] + "f",
            "automation_alias": "script",
            "automation_uid": "5b4e0237da074764",
            "tags": (tags or alias.replace("-", ",")).split(","),
        }
        (path / "meta.yaml").write_text(json.dumps({**head, **meta}, indent=1))
        if customize:
            (path / "customize.py").write_text(customize)
        if run:
            (path / "run.sh").write_text("set -eu\n" + run)
        for name, text in (files or {}).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        # Times are part of what the index trusts; tests write faster than a clock ticks.
        stamp = 1_700_000_000 + self._count
        for item in path.rglob("*"):
            os.utime(item, (stamp, stamp))
        return path

    @property
    def store(self) -> CacheStore:
        return CacheStore(str(self.home / "cmbench"))

    def cmind(self, own: bool = False) -> Any:
        """What the engine uses of cmind: where the home is and which repositories there are."""
        names = {"cmbench" if own else "lab": self.repo, **{p.name: p for p in self.others}}
        repos = [
            SimpleNamespace(path_with_prefix=str(path), meta={"alias": alias, "uid": alias})
            for alias, path in names.items()
        ]
        cmind = SimpleNamespace(
            repos_path=str(self.home), repos=SimpleNamespace(lst=repos), output="con"
        )
        cmind.access = lambda i: cli.handle(
            i["automation"], _VERBS.get(i["action"], "run"), cmind, i
        )
        return cmind

    def call(self, verb: str, thing: str = "script", own: bool = False, **flags: Any) -> Result:
        """One verb, in this process, as the console would have it."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            answer = cli.handle(thing, verb, self.cmind(own), {"out": "con", **flags})
        return Result(answer, out.getvalue(), err.getvalue())

    def run(self, tags: str, **flags: Any) -> Result:
        return self.call("run", tags=tags, **flags)

    def plan(self, tags: str, **flags: Any) -> Result:
        return self.call("plan", tags=tags, **flags)


_VERBS = {"find": "search", "search": "search", "rm": "delete"}
"""Verbs as cmind substitutes them."""


def command(lab: Lab, tags: str, **flags: Any) -> list[str]:
    """The command line of a run in a process of its own, by the end of this file."""
    request = json.dumps({"out": "con", "tags": tags, **flags})
    return [sys.executable, __file__, str(lab.home), str(lab.repo), request]


def start(lab: Lab, tags: str, **flags: Any) -> subprocess.Popen[str]:
    """Start such a run."""
    return subprocess.Popen(
        command(lab, tags, **flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


if __name__ == "__main__":
    opened = Lab.__new__(Lab)
    opened.home, opened.repo, opened.others = Path(sys.argv[1]), Path(sys.argv[2]), []
    sys.exit(cli.handle("script", "run", opened.cmind(), json.loads(sys.argv[3]))["return"])
