"""The programs of the package: ``session`` and what it starts, ``node``, and others."""

from __future__ import annotations

import sys
from pathlib import Path

from .errors import HarnessError, tell

PROGRAMS = ("session", "node", "probe", "build", "tune", "run", "compare", "quantize", "engine")
USAGE = f"usage: python -m mlperf_harness {'|'.join(PROGRAMS)} CONFIG.json"


def main(arguments: list[str]) -> int:
    """Run one program on its JSON file; 0 when it did its work, 1 with one line otherwise."""
    if len(arguments) != 2 or arguments[0] not in PROGRAMS:
        print(USAGE, file=sys.stderr)
        return 2
    name, config = arguments[0], Path(arguments[1])
    try:
        if name == "session":
            from .session import session

            return session.main(config)
        if name == "node":
            from .session import node

            return node.main(config)
        if name == "quantize":
            from .quantization import quantize

            return quantize.main(config)
        if name == "engine":
            from .engines import generate

            return generate.main(config)
        from .session import subprocess_main

        return subprocess_main.main(name, config)
    except HarnessError as error:
        tell(error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
