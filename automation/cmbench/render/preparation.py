"""A prepared folder, for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cmbench.api.preparation import PreparedFolder
from cmbench.lib.text_files import counted

OWN_FLAGS = ("--output", "--for", "--find_links")


def prepared_text(made: PreparedFolder, command: Sequence[str]) -> str:
    """Return its contents, uncovered needs of the plan, and the command for the other machine."""
    contents = f"{counted(len(made.wheels), 'wheel')} and {counted(len(made.files), 'file')}"
    lines = [f"{contents} in {made.path}"]
    if made.missing:
        lines.append("not in it, to be brought or made there:")
        lines += [f"  {text}" for text in made.missing]
    # Its first three words are those of this verb.
    words = [str(word) for word in command[3:] if str(word).partition("=")[0] not in OWN_FLAGS]
    there = shlex.join(["cm", "run", "script", *words, f"--prepared={made.path}", "--offline"])
    lines.append(f"copy the folder to the other machine, and there:\n{there}")
    return "\n".join(lines)
