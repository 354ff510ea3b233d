"""llama.cpp's server within this process, out of the wheel ``xllamacpp``."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

from .settings import TextServerSettings


def parameters(settings: TextServerSettings) -> Any:
    """Return the parameters of llama.cpp for ``settings``."""
    from xllamacpp import CommonParams

    made = CommonParams()
    made.model.path = settings.model
    made.model_alias = {settings.name}
    made.hostnames = [settings.host]
    made.port = settings.port
    made.n_parallel = settings.slots
    made.n_ctx = settings.context * settings.slots
    made.cont_batching = True
    made.cache_prompt = settings.cache == "yes"
    if not made.cache_prompt:
        made.cache_ram_mib = 0
    made.ui = False
    threads = settings.threads or len(os.sched_getaffinity(0))
    made.cpuparams.n_threads = made.cpuparams_batch.n_threads = threads
    return made


def serve(settings: TextServerSettings) -> NoReturn:
    """Start the server, print its address, and end with the process."""
    from xllamacpp import Server

    server = Server(parameters(settings))
    print(f"serving {settings.name} at {server.listening_address}/v1", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    while True:
        signal.pause()
