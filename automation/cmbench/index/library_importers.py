"""Who imports the shared code of a script: ``customize.py`` in the engine, or native programs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cmbench.format.environment_reads import HOOK
from cmbench.format.meta import META_FILES
from cmbench.lib.module_imports import read_imports

_LONGEST = 1 << 20
_HEAD = 1 << 10
_NOT_RUN = (*META_FILES, ".md")


class ScriptImports:
    """What the files ``names`` of the script at ``path`` import, as far as their sources show.

    A module next to ``customize.py`` may be imported by it, or be a program.
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        hooks = [read_imports(_read(path, n), "") for n in names if _is_of_hook(n)]
        self._statements = [name for hook in hooks for name in hook.names]
        self._texts = [text for hook in hooks for text in hook.texts]
        programs = [name for name in names if name != HOOK and not name.endswith(_NOT_RUN)]
        self._programs = b"\n".join(_read(path, name) for name in programs)

    def importers(self, dotted: str) -> tuple[bool, bool]:
        """Return whether a hook imports ``dotted``, and whether a program may.

        Only an import statement shows the first. Where none does, it may be a program.
        """
        top = dotted.partition(".")[0].encode()
        words = re.findall(rb"(?<!\w)" + top + rb"(?:[./]\w+)*", self._programs)
        mentioned = {word.replace(b"/", b".").decode() for word in words}
        hook = any(_covers(dotted, name) for name in self._statements)
        program = any(_covers(dotted, name) for name in (*self._texts, *mentioned))
        return hook, program or not hook


def _is_of_hook(name: str) -> bool:
    return name.endswith(".py") and "/" not in name


def _covers(used: str, dotted: str) -> bool:
    """Return whether an import of ``dotted`` may be one of ``used``: as it is, above or below."""
    return dotted == used or dotted.startswith(f"{used}.") or used.startswith(f"{dotted}.")


def _read(path: str, name: str) -> bytes:
    """Return the start of a file; nothing of binary data, or where there is no such file."""
    try:
        with open(os.path.join(path, name), "rb") as stream:
            data = stream.read(_HEAD)
            return b"" if b"\0" in data else data + stream.read(_LONGEST)
    except OSError:
        return b""
