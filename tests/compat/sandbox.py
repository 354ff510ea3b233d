"""A machine of its own for a session of commands: an overlay over this one, thrown away afterwards.

It takes root and ``unshare``. What a session writes anywhere stays in the overlay; ``/proc`` and
``/sys`` cannot be written, and every process of the session ends with it. Both engines see the same
paths, so that what they give back can be compared as it is, but for their own folders.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import import_paths  # noqa: F401  (makes what follows importable)

from support import link_engine

TYPED = Path(__file__).with_name("typed.py")
USER = "/home/tried"
ALIASES = {"cm": "mlcommons@cm4mlops", "mlc": "mlcommons@mlperf-automations"}
HOMES = {"cm": f"{USER}/CM", "mlc": f"{USER}/MLC/repos"}
REFUSED = ("docker", "podman", "apptainer", "singularity", "ssh", "scp", "systemctl", "reboot")
"""Programs that could reach another machine, or ask a service of this one: each only fails."""
TOOLS = ("cm", "cmr", "mlc", "mlcr", "mlcd", "mlct", "mlce")


@dataclass(frozen=True)
class Ran:
    """What a session did: one record for each command, the files it left, entries' tags."""

    records: tuple[dict[str, Any], ...] = ()
    files: tuple[str, ...] = ()
    entries: tuple[tuple[str, ...], ...] = ()
    status: int = 0
    output: str = ""


@dataclass
class Sandbox:
    """``engine`` is ``cm``, ``mlc`` or ``ours``, of ``python``; ``collection`` lies at ``root``."""

    folder: Path
    collection: str
    root: Path
    engine: str
    python: str
    _layer: Path = field(init=False)

    def __post_init__(self) -> None:
        self._layer = self.folder / "layer"
        shutil.rmtree(self.folder, ignore_errors=True)
        self._fill(self._layer)
        self._index()

    @property
    def home(self) -> str:
        """Where this engine keeps repositories and entries."""
        return HOMES["mlc" if self.engine == "mlc" else "cm"]

    @property
    def scripts(self) -> str:
        place = self.home if self.engine == "mlc" else f"{self.home}/repos"
        return f"{place}/{ALIASES[self.collection]}"

    def _fill(self, layer: Path) -> None:
        tools = layer / "opt/tools"
        tools.mkdir(parents=True)
        for name in REFUSED:
            _program(tools / name, "exit 1")
        _program(tools / "sudo", 'while [ "${1#-}" != "$1" ]; do shift; done; exec env "$@"')
        driver = f"{self.python} {TYPED} {self.engine}"
        for name in TOOLS:
            _program(tools / name, f'exec {driver} /opt/record {name} "$@"')
        place = _below(layer, self.scripts)
        shutil.copytree(self.root, place, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        subprocess.run(["git", "init", "-q"], cwd=place, check=True)
        (_below(layer, USER) / "work").mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(layer / "opt/py")], check=True)
        self._register(layer)

    def _register(self, layer: Path) -> None:
        home = _below(layer, self.home)
        local = home / ("local" if self.engine == "mlc" else "repos/local")
        local.mkdir(parents=True)
        mark = "meta.yaml" if self.engine == "mlc" else "cmr.yaml"
        (local / mark).write_text("alias: local\nuid: 9a3280b14a4285c9\n")
        listed = [self.scripts]
        if self.engine == "mlc":
            listed.insert(0, f"{self.home}/local")
        if self.engine == "ours":
            link_engine(layer / "opt/ours")
            listed.insert(0, "/opt/ours")
            if self.collection == "mlc":
                theirs = _below(layer, self.scripts) / "cmr.yaml"
                theirs.write_text(f"alias: {ALIASES['mlc']}\nuid: a34c8a9f2d3b4e5f\n")
        (home / "repos.json").write_text(json.dumps(listed))

    def _index(self) -> None:
        """What is asked first in a home makes its index: once for all sessions."""
        tool = "mlc" if self.engine == "mlc" else "cm"
        self.run((f"{tool} find script --tags=detect,os; rm /opt/record",), 300, keep=True)

    def run(self, lines: tuple[str, ...], seconds: float, keep: bool = False) -> Ran:
        """Run a session; what it wrote is gone when this returns, but for what later ones keep."""
        upper = self.folder / "upper"
        scratch = self.folder / "scratch"
        for place in (upper, scratch, self.folder / "idle", self.folder / "root"):
            _remove(place)
            place.mkdir()
        (upper / "opt").mkdir()
        (upper / "opt/session").write_text("\n".join(lines) + "\n")
        try:
            ran = self._ran(upper, seconds)
            if keep:
                places = (upper / USER.lstrip("/"), _below(self._layer, USER))
                shutil.copytree(*places, symlinks=True, dirs_exist_ok=True)
            return ran
        finally:
            _remove(upper)
            _remove(scratch)

    def _ran(self, upper: Path, seconds: float) -> Ran:
        with open(self.folder / "output", "w+b") as output:
            process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "bash", "-ec"]
                + [self._inside()],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = 124
            output.seek(0)
            text = output.read()[-60000:].decode("utf-8", "replace")
        return Ran(
            records=tuple(self._records(upper / "opt/record")),
            files=tuple(sorted(self._files(upper / USER.lstrip("/") / "work"))),
            entries=tuple(sorted(self._entries(upper))),
            status=status,
            output=text,
        )

    def _inside(self) -> str:
        at = shlex.quote(str(self.folder / "root"))
        base = f"lowerdir=/,upperdir={self._layer},workdir={self.folder}/idle"
        options = f"lowerdir={at},upperdir={self.folder}/upper,workdir={self.folder}/scratch"
        return f"""
mount --make-rprivate /
mount -t overlay overlay -o {shlex.quote(base)},ro {at}
mount -t overlay overlay -o {shlex.quote(options)} {at}
mount -t proc proc {at}/proc
mount --bind {at}/proc/sys {at}/proc/sys
mount -o remount,ro,bind {at}/proc/sys
mount -t sysfs -o ro sysfs {at}/sys
mount --rbind /dev {at}/dev
mount -t tmpfs tmpfs {at}/tmp
cd {at}
exec chroot . bash -c 'cd {USER}/work && exec bash /opt/session'
"""

    def _environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if key.startswith(("PIP_", "SSL_", "UV_")) or key.lower().endswith("_proxy")
        }
        return {
            **kept,
            "PATH": "/opt/tools:/opt/py/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": USER,
            "USER": "tried",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CM_CORE_SKIP_INTERNAL_REPOS": "yes",
            "CM_REPOS": HOMES["cm"],
            "MLC_REPOS": HOMES["mlc"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "DEBIAN_FRONTEND": "noninteractive",
        }

    def _records(self, path: Path) -> Iterator[dict[str, Any]]:
        if path.is_file():
            for line in self.plain(path.read_text("utf-8")).splitlines():
                yield json.loads(line)

    def plain(self, text: str) -> str:
        """``text`` with this engine's folders written as words."""
        entries = {
            "ours": rf"{self.home}/cmbench/v\d+/store/[^/\"\s:,;]+",
            "cm": rf"{self.home}/repos/local/cache/[0-9a-f]+",
            "mlc": rf"{self.home}/local/cache/[^/\"\s:,;]+",
        }
        text = re.sub(entries[self.engine], "<entry>", text)
        text = text.replace(self.scripts, "<collection>")
        return text.replace(self.home, "<home>")

    def _files(self, work: Path) -> Iterator[str]:
        for path in work.rglob("*"):
            name = str(path.relative_to(work))
            if path.is_file() and not _OF_ENGINES.search(name):
                yield self.plain(name)

    def _entries(self, upper: Path) -> Iterator[tuple[str, ...]]:
        home = upper / self.home.lstrip("/")
        if self.engine == "ours":
            metas = [
                *home.glob("cmbench/v*/entries/*.json"),
                *home.glob("cmbench/v*/entries/*/*.json"),
            ]
        elif self.engine == "cm":
            metas = list(home.glob("repos/local/cache/*/_cm.json"))
        else:
            metas = list(home.glob("local/cache/*/meta.json"))
        for path in metas:
            try:
                tags = json.loads(path.read_text("utf-8")).get("tags") or ()
            except ValueError:
                continue
            kept = sorted({str(t) for t in tags} - {""})
            # Some hold what was not wanted, such as ``-virtual``.
            yield tuple(
                t for t in kept if not t.startswith(("script-artifact-", "script-item-", "-"))
            )


_OF_ENGINES = re.compile(r"(^|/)(tmp-[\w.-]+|\.?mlc-log\.txt|__pycache__/.*|.*\.pyc|\.git/.*)$")
"""Files that engines leave for themselves."""


def _below(layer: Path, place: str) -> Path:
    found = layer / place.lstrip("/")
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _remove(place: Path) -> None:
    if place.exists():
        subprocess.run(["rm", "-rf", str(place)], check=False)
