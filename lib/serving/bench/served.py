"""``python -m serving.bench.served``: against a server that lives as long as it measures."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.problems import Problem
from serving.server import server
from serving.server.server_spec import ServerSpec

from . import session
from .command import INTERRUPTED, say
from .options import read


def main(arguments: Sequence[str], answer: str) -> int:
    """Start Triton on any free ports, measure, end it; the exit status as of ``session.main``."""
    wanted = ServerSpec(
        os.environ["CM_TRITON_SERVER_BIN_WITH_PATH"], os.environ["CM_TRITON_MODEL_REPOSITORY"]
    )
    folder = Path(tempfile.mkdtemp(prefix="triton-bench-"))
    try:
        protocol = read(arguments)[0].protocol
        with server.running(wanted, folder) as running:
            url = running.grpc_url if protocol == "grpc" else running.url
            say(f"Triton {running.version} at {url}, for as long as this takes")
            return session.main([*arguments, f"--url={url}"], answer)
    except Problem as error:
        error.hint = error.hint_without(str(folder))
        Path(answer).write_text(json.dumps(error.answer()), encoding="utf-8")
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ["CM_TRITON_BENCH_ANSWER"]))
