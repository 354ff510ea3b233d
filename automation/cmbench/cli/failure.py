"""How the command line shows a failure."""

from __future__ import annotations

import sys
from contextlib import suppress

from cmbench.errors import Error, coloured


def show(error: Error) -> None:
    """Print the block of ``error`` on standard error, in lines that fit where it is a terminal."""
    out = sys.stderr
    # Where the text cannot be read, the exit status still distinguishes success from failure.
    with suppress(OSError):
        text = error.render(on_terminal=out is not None and out.isatty())
        print(coloured(text, out), file=out, flush=True)
