"""The three programs of the package: ``session``, and the processes it starts for its parts."""

from __future__ import annotations

import sys
from pathlib import Path

from .errors import HarnessError

USAGE = "usage: python -m mlperf_harness session|calibrate|run CONFIG.json"


def main(arguments: list[str]) -> int:
    """Run one program on its JSON file; 0 when it did its work, 1 with one line otherwise."""
    if len(arguments) != 2 or arguments[0] not in ("session", "calibrate", "run"):
        print(USAGE, file=sys.stderr)
        return 2
    name, config = arguments[0], Path(arguments[1])
    try:
        if name == "session":
            from . import session

            return session.main(config)
        from . import child

        return child.main(name, config)
    except HarnessError as error:
        print(f"mlperf_harness: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
