"""Run a command and write the most memory that it had, in bytes: peak_memory.py FILE COMMAND...

The system counts for a process what the one that started it had at that moment. So somebody small
must start it.
"""

from __future__ import annotations

import os
import sys


def main(out: str, command: list[str]) -> int:
    """The exit status of the command, which must be named by its path."""
    number = os.spawnv(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(number, 0)
    with open(out, "w", encoding="ascii") as file:
        file.write(str(1024 * usage.ru_maxrss))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
