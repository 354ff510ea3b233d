"""Other clients of Triton, run by ``triton_client.py`` in an environment that has tritonclient.

    python triton_rivals.py WAY URL MODEL BATCH SECONDS THREADS

It prints the requests that were answered, the seconds, and the latencies in ms as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPE = (224, 224, 3)
INPUT, OUTPUT = "input", "output"
Ask = Callable[[], None]


def as_in_the_guide(url: str, model: str, batch: int, number: int) -> Ask:
    """A connection and random values for every request, as guide 003's client has them."""
    import tritonclient.http as triton

    def ask() -> None:
        client = triton.InferenceServerClient(url)
        given = triton.InferInput(INPUT, [batch, *SHAPE], "FP32")
        given.set_data_from_numpy(np.random.rand(batch, *SHAPE).astype(np.float32))
        wanted = triton.InferRequestedOutput(OUTPUT)
        client.infer(model, inputs=[given], outputs=[wanted]).as_numpy(OUTPUT)
        client.close()

    return ask


def http(url: str, model: str, batch: int, number: int) -> Ask:
    """A connection that is kept, and values that are made once."""
    import tritonclient.http as triton

    client, given, wanted = _made(triton, url, batch)

    def ask() -> None:
        client.infer(model, inputs=[given], outputs=[wanted]).as_numpy(OUTPUT)

    return ask


def grpc(url: str, model: str, batch: int, number: int) -> Ask:
    """The same over gRPC; the message is put together for every request, as its API has it."""
    import tritonclient.grpc as triton

    client, given, wanted = _made(triton, url, batch)

    def ask() -> None:
        client.infer(model, inputs=[given], outputs=[wanted]).as_numpy(OUTPUT)

    return ask


def shared(url: str, model: str, batch: int, number: int) -> Ask:
    """HTTP with both tensors in system shared memory."""
    import tritonclient.http as triton
    import tritonclient.utils.shared_memory as memory

    client, given, wanted = _made(triton, url, batch)
    values = _values(batch)
    name, room = f"rival-{number}", 1 << 20
    handle = memory.create_shared_memory_region(name, f"/{name}", values.nbytes + room)
    memory.set_shared_memory_region(handle, [values])
    client.register_system_shared_memory(name, f"/{name}", values.nbytes + room)
    given.set_shared_memory(name, values.nbytes)
    wanted.set_shared_memory(name, room, offset=values.nbytes)

    def clean() -> None:
        client.unregister_system_shared_memory(name)
        memory.destroy_shared_memory_region(handle)

    CLEAN[number] = clean

    def ask() -> None:
        client.infer(model, inputs=[given], outputs=[wanted])

    return ask


CLEAN: dict[int, Callable[[], Any]] = {}


def _values(batch: int) -> Any:
    return np.random.default_rng(0).random((batch, *SHAPE), np.float32)


def _made(triton: Any, url: str, batch: int) -> tuple[Any, Any, Any]:
    client = triton.InferenceServerClient(url)
    given = triton.InferInput(INPUT, [batch, *SHAPE], "FP32")
    if triton.__name__.endswith("http"):
        given.set_data_from_numpy(_values(batch), binary_data=True)
        return client, given, triton.InferRequestedOutput(OUTPUT, binary_data=True)
    given.set_data_from_numpy(_values(batch))
    return client, given, triton.InferRequestedOutput(OUTPUT)


def in_process(url: str, model: str, batch: int, number: int) -> Ask:
    """What the model computes, without a server."""
    values = _values(batch)

    def ask() -> None:
        np.ascontiguousarray(values.reshape(batch, -1)[:, :1000])

    return ask


WAYS = {"guide": as_in_the_guide, "http": http, "grpc": grpc, "shared": shared,
        "in process": in_process}  # fmt: skip


def main(way: str, url: str, model: str, batch: int, seconds: float, threads: int) -> None:
    latencies: list[list[float]] = [[] for _ in range(threads)]
    ready = threading.Barrier(threads + 1)

    def run(number: int) -> None:
        # The HTTP client belongs to the thread that made it.
        ask = WAYS[way](url, model, batch, number)
        ask()
        ready.wait()
        end = time.perf_counter() + seconds
        while (sent := time.perf_counter()) < end:
            ask()
            latencies[number].append((time.perf_counter() - sent) * 1e3)
        if clean := CLEAN.pop(number, None):
            clean()

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    for thread in running:
        thread.join()
    took = time.perf_counter() - begin
    found = [value for each in latencies for value in each]
    tail = [float(np.percentile(found, p)) for p in (50, 99)]
    print(json.dumps({"rate": len(found) / took, "p50": tail[0], "p99": tail[1]}))


if __name__ == "__main__":
    way, url, model, batch, seconds, threads = sys.argv[1:]
    main(way, url, model, int(batch), float(seconds), int(threads))
