"""Code that several scripts share: the ``src`` folder of one of them."""

from __future__ import annotations

import os
import sys


def importable(script_file: str, *aliases: str) -> None:
    """Let the script at ``script_file`` import what lies in ``src`` of scripts beside it.

    The folders come last in the search path, so that they hide nothing.
    """
    scripts = os.path.dirname(os.path.dirname(os.path.abspath(script_file)))
    for alias in aliases:
        folder = os.path.join(scripts, alias, "src")
        if folder not in sys.path:
            sys.path.append(folder)
