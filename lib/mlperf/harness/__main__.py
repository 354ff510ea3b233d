"""The programs of the package: ``session`` and what it starts, ``node``, and others."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from .errors import exit_status

PROGRAMS = ("session", "node", "probe", "build", "tune", "run", "compare")
USAGE = f"usage: python -m mlperf.harness {'|'.join(PROGRAMS)} CONFIG.json"


def main(arguments: list[str]) -> int:
    """Run one program on its JSON file; 0 when it did its work, 1 with one line otherwise."""
    if len(arguments) != 2 or arguments[0] not in PROGRAMS:
        print(USAGE, file=sys.stderr)
        return 2
    name, config = arguments[0], Path(arguments[1])
    if name == "session":
        from .session import session

        return exit_status(session.main, config)
    if name == "node":
        from .session import node

        return exit_status(node.main, config)
    from .session import subprocess_main

    return exit_status(partial(subprocess_main.main, name), config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
