"""``python -m serving.endpoint.served``: against a server that lives as long as it measures."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.problems import Problem
from serving.bench.command import INTERRUPTED, OK, say
from serving.text_server.owned import running
from serving.text_server.settings import TextServerSettings

from . import session


def main(arguments: Sequence[str], settings: TextServerSettings, answer: str) -> int:
    """Start the server, measure, end it; the exit status as of ``session.main``."""
    folder = Path(tempfile.mkdtemp(prefix="endpoint-bench-"))
    try:
        with running(settings, folder) as url:
            say(f"{settings.kind.title} at {url}, for as long as this takes")
            for note in settings.notes():
                say(f"note: {note}")
            words = [word for word in arguments if not word.startswith("--url=")]
            return session.main([*words, f"--url={url}"], answer, settings.facts())
    except Problem as error:
        Path(answer).write_text(json.dumps(error.answer()), encoding="utf-8")
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    SERVER = TextServerSettings(**json.loads(os.environ["CM_TEXT_SERVER_SETTINGS"]))
    sys.exit(main(sys.argv[1:], SERVER, os.environ["CM_ENDPOINT_BENCH_ANSWER"]))
