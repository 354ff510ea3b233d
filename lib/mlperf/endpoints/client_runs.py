"""``python -m mlperf.endpoints.client_runs CALL ANSWER``: the reference client, point by point.

CALL is a JSON file: the client's program, the configuration files in their order, and the settings
of a server if one is to live as long as this takes. The client itself is not touched.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem
from serving.endpoint.connection import EndpointConnection, models, parse_address
from serving.text_server.owned import running
from serving.text_server.settings import TextServerSettings

OWN_URL = "http://127.0.0.1:0"
"""Stands in configurations for the address of a server that is to be started."""
OWN_MODEL = "model-of-the-own-server"
"""Stands in configurations for the name under which such a server lists its model."""
MODELS_S = 30.0
LAST_LINES = 8
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class ClientCall:
    """The program and its work."""

    client: str
    configs: tuple[Path, ...]
    server: TextServerSettings | None = None


def read_call(path: Path) -> ClientCall:
    """Return what ``path`` says."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    server = document.get("server")
    return ClientCall(
        document["client"],
        tuple(map(Path, document["configs"])),
        TextServerSettings(**server) if server else None,
    )


def run_all(call: ClientCall) -> None:
    """Run the client for every configuration; raise Problem where it fails."""
    with tempfile.TemporaryDirectory(prefix="endpoints-") as folder:
        server = running(call.server, Path(folder)) if call.server else nullcontext("")
        with server as url:
            for number, config in enumerate(call.configs, 1):
                if url:
                    _name_server(config, url)
                print(f"{number} of {len(call.configs)}: {config.stem} ...", flush=True)
                run_client(call.client, config)


def _name_server(config: Path, url: str) -> None:
    """Put the address of a server and the name of its model into a configuration."""
    text = config.read_text(encoding="utf-8")
    if OWN_MODEL in text:
        connection = EndpointConnection(parse_address(url), timeout=MODELS_S)
        try:
            text = text.replace(OWN_MODEL, json.dumps(next(models(connection))))
        finally:
            connection.close()
    # The client adds the version of the API itself.
    config.write_text(text.replace(OWN_URL, url.removesuffix("/v1")), encoding="utf-8")


def run_client(client: str, config: Path) -> None:
    """Run the client once; its output goes beside the configuration; raise Problem if it fails."""
    log, started = config.with_suffix(".log"), time.monotonic()
    command = [client, "benchmark", "from-config", "--config", str(config)]
    with log.open("wb") as stream:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False
        )
    print(f"  {time.monotonic() - started:.0f} s, {log}", flush=True)
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise Problem(
            "script-failed",
            f"inference-endpoint ended with status {done.returncode} at {config.stem}",
            hint=f"see {log}; the same command goes on with what is missing",
            context=[line.rstrip() for line in lines if line.strip()][-LAST_LINES:],
        )


def main(arguments: Sequence[str]) -> int:
    """Run what CALL says; a failure is written to ANSWER, and is none of the process."""
    call, answer = map(Path, arguments)
    try:
        run_all(read_call(call))
        answer.write_text("{}", encoding="utf-8")
    except Problem as problem:
        answer.write_text(json.dumps(problem.answer()), encoding="utf-8")
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
