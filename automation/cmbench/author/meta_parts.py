"""Parts of a meta.yaml that a program of the repository writes, so that no fact is written twice.

Such a part lies between two marks, at the indentation of its lines::

    # begin: NAME, written by `cm doc script` from PROGRAM
    ...
    # end: NAME

PROGRAM is a Python file, relative to the script's folder, that needs nothing but Python's own
library and ``lib`` of its repository, and prints a JSON object: NAME to lines of YAML.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache

from cmbench.errors import Error
from cmbench.format.libraries import FOLDER
from common.python_path import child_env

_PART = re.compile(
    r"^( *)# begin: (\S+), written by `cm doc script` from (\S+)\n.*?^ *# end: \2\n",
    re.MULTILINE | re.DOTALL,
)


def meta_files(folders: Iterable[str]) -> dict[str, str]:
    """Return path to expected text of the meta.yaml files in ``folders`` that have such parts."""
    texts = {}
    for folder in folders:
        path = os.path.join(folder, "meta.yaml")
        try:
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        except OSError:
            continue
        if _PART.search(text):
            texts[path] = filled(text, folder)
    return texts


def filled(text: str, folder: str) -> str:
    """The text of a meta.yaml with its parts as their programs write them now.

    Raises Error where a program fails or does not write a part.
    """

    def part(match: re.Match[str]) -> str:
        indentation, name, program = match.groups()
        libraries = os.path.join(os.path.dirname(os.path.dirname(folder)), FOLDER)
        lines = _parts(os.path.normpath(os.path.join(folder, program)), libraries)
        if name not in lines:
            raise Error(
                "bad-meta", f"{program} writes no part named {name}; parts: {', '.join(lines)}"
            )
        head = f"{indentation}# begin: {name}, written by `cm doc script` from {program}\n"
        body = textwrap.indent(lines[name].strip("\n") + "\n", indentation)
        return f"{head}{body}{indentation}# end: {name}\n"

    return _PART.sub(part, text)


@cache
def _parts(program: str, libraries: str) -> Mapping[str, str]:
    words = [sys.executable, "-B", program]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=child_env(libraries)
    )
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise Error("bad-meta", f"{program} failed: {last}")
    parts: Mapping[str, str] = json.loads(done.stdout)
    return parts
