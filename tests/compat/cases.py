"""The requests that are compared, as lines of text: ``tags key=value ...``.

Below a request, lines that start with ``!`` name a key that may differ, and why: ``! KEY reason``;
``! theirs reason`` and ``! ours reason`` stand for a run that fails with that engine alone. In the
file for both collections such a line may be for one of them: ``! cm: KEY reason``.

Words in braces are filled in: ``{P}`` is the prefix of env keys, ``{fixtures}`` a folder of small
files that ``make_fixtures`` writes, ``{http}`` the address of a server of these files and
``{md5}`` the checksum of ``table.csv``.
"""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"


@dataclass
class Case:
    """One request for both engines, and what is known of its differences."""

    line: str
    known: dict[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> str:
        return self.line.split()[0]

    def request(self, words: Mapping[str, str]) -> dict[str, Any]:
        """The request as the engines take it; ``env.KEY`` makes a nested dictionary."""
        line = self.line
        for name, value in words.items():
            line = line.replace("{" + name + "}", value)
        found: dict[str, Any] = {"tags": line.split()[0]}
        for word in line.split()[1:]:
            name, _, value = word.partition("=")
            *groups, key = name.split(".")
            place = found
            for group in groups:
                place = place.setdefault(group, {})
            place[key] = value
        return found


def read_cases(collection: str) -> list[Case]:
    """The cases of one collection (``cm`` or ``mlc``): those for both, then its own."""
    cases: list[Case] = []
    for name in ("both", collection):
        for raw in (CASES / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            line = raw.strip()
            if line.startswith("!"):
                only, _, rest = line[1:].strip().partition(" ")
                if only not in ("cm:", "mlc:"):
                    rest = f"{only} {rest}"
                elif only != f"{collection}:":
                    continue
                key, _, reason = rest.partition(" ")
                cases[-1].known[key] = reason
            elif line and not line.startswith("#"):
                cases.append(Case(line))
    return cases


def make_fixtures(folder: Path) -> Path:
    """Small files for scripts that take some: data, archives, a program, a git repository."""
    folder.mkdir(parents=True)
    (folder / "table.csv").write_text("name,value\none,1\ntwo,2\n")
    (folder / "graph.json").write_text('{"x": [1, 2], "y": [3, 4]}\n')
    (folder / "prog").mkdir()
    (folder / "prog" / "hello.c").write_text(
        '#include <stdio.h>\nint main(void) { printf("hello\\n"); return 0; }\n'
    )
    (folder / "prog" / "hello.py").write_text("print('hello')\n")
    inner = folder / "data"
    (inner / "sub").mkdir(parents=True)
    (inner / "a.txt").write_text("alpha\n")
    (inner / "sub" / "b.txt").write_text("beta\n")
    with tarfile.open(folder / "data.tar.gz", "w:gz") as archive:
        archive.add(inner, "data")
    with zipfile.ZipFile(folder / "data.zip", "w") as pack:
        pack.write(inner / "a.txt", "data/a.txt")
    git = folder / "git"
    git.mkdir()
    (git / "README").write_text("a repository\n")
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*settings, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=git, check=True, env=_FIXED)
    return folder


_FIXED = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00+0000",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00+0000",
}
"""The same commit everywhere."""
