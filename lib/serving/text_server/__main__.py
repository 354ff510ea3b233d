"""``python -m serving.text_server``: serve until a signal comes."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from common import python_path
from common.problems import run_program
from serving.http_client import authority

from . import llama_cpp
from .refusals import require_all
from .settings import TextServerSettings, read_arguments

LIBRARY = Path(__file__).resolve().parents[2]


def serve(settings: TextServerSettings) -> NoReturn:
    """Say what a reader of figures must know, and become the server; raise Problem before it."""
    require_all(settings)
    for note in settings.notes():
        print(f"note: {note}", flush=True)
    if not settings.kind.words:
        llama_cpp.serve(settings)
    command = settings.server_command(sys.executable)
    print(f"serving {settings.name} at http://{authority(settings.host, settings.port)}/v1 with")
    print(f"  {shlex.join(command)}", flush=True)
    os.execve(command[0], command, settings.environment(_own_environment()))


def _own_environment() -> dict[str, str]:
    """Return the environment without our library, whose names an engine may have too."""
    folders = os.environ.get(python_path.VARIABLE, "").split(os.pathsep)
    others = [folder for folder in folders if folder and Path(folder).resolve() != LIBRARY]
    return {**os.environ, python_path.VARIABLE: os.pathsep.join(others)}


def main() -> int:
    """Run the command line."""
    settings = read_arguments(sys.argv[1:])
    return run_program(settings.kind.title, lambda: serve(settings))


if __name__ == "__main__":
    sys.exit(main())
