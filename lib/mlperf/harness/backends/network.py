"""A system under test on other machines: every predictor is a connection to one of its nodes.

What the rules of the network division forbid to this side (preparing samples, joining queries,
filling up, working on answers) is done by the nodes, see ``session.node``.
"""

from __future__ import annotations

import hmac
import socket
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, TypeGuard

import numpy as np

from ..entrance import addresses, read_token
from ..errors import HarnessError
from ..settings import GraphSpec, ModelSpec, Setup, TensorSpec
from . import wire
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature

# Requests in flight to try per node.
IN_FLIGHT = (1, 2, 4, 8, 16)
# The number of a sample in the data set, which some results name; it comes before its tensors.
SAMPLE = TensorSpec("number", "int64", ())
CONNECT_S, ANSWER_S = 10.0, 600.0
# What the rules want in the name of such a system (LoadGen over the network, QDL constraints).
NAMED = "Network SUT"
START = "start one there: `cm run script --tags=run-mlperf,inference --network=sut …`"
DESCRIPTION_KEYS = (
    *("name", "benchmark", "backend", "precision", "device", "model", "model_sha256"),
    "samples",
)


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What a node says of itself; ``largest`` is the most samples of a request."""

    address: tuple[str, int]
    facts: dict[str, str]
    host: dict[str, str]
    versions: dict[str, str]
    inputs: tuple[TensorSpec, ...]
    result: tuple[str, tuple[int, ...], bool]
    largest: int

    @property
    def name(self) -> str:
        """Its name, unlike that of every other node."""
        return self.facts["name"]

    @property
    def place(self) -> str:
        """Its address, for messages."""
        return f"{self.address[0]}:{self.address[1]}"


class NetworkPredictor(Predictor):
    """One connection to a node. Samples are not filled up on this side."""

    length_step = 1

    def __init__(self, connection: socket.socket, node: NodeDescription) -> None:
        self._connection = connection
        self.node = node

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``; never called, as ``pipeline.remote`` asks for results.

        Raises HarnessError.
        """
        raise HarnessError(f"{self.node.name} answers samples, not batches of a model")

    def answer(self, samples: Sequence[wire.SampleGroup], results: Array, sizes: Array) -> None:
        """Write the node's result of each sample into its row of ``results`` [n, *Result.shape].

        ``sizes`` [n] is as in ``base.Solver``. Raises HarnessError where the node is gone.
        """
        groups, parts = wire.packed(samples, self.node.inputs)
        try:
            answer = wire.ask(self._connection, {"kind": "samples", "groups": groups}, parts)
        except HarnessError as error:
            raise _of(self.node.place, error) from error
        rows = results.reshape(len(results), -1).view(np.uint8)
        told_sizes = (
            answer.head.get("sizes") if self.node.result[2] else [rows.shape[1]] * len(rows)
        )
        if not _are_sizes(told_sizes, *rows.shape):
            raise _of(self.node.place, HarnessError("told sizes that its results cannot have"))
        if len(answer.body) != sum(told_sizes):
            text = f"answered {len(answer.body)} bytes for {len(results)} samples"
            raise _of(self.node.place, HarnessError(f"{text}, not {sum(told_sizes)}"))
        _fill(rows, told_sizes, answer.body)
        np.copyto(sizes, np.asarray(told_sizes, np.int64))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _fill(rows: Array, sizes: Sequence[int], body: memoryview) -> None:
    """Put the bytes of the results into their rows; the rest of a row is ignored."""
    flat = np.frombuffer(body, np.uint8)
    if len(flat) == rows.size:
        np.copyto(rows, flat.reshape(rows.shape))
        return
    end = 0
    for row, size in zip(rows, sizes, strict=True):
        row[:size] = flat[end : end + size]
        end += size


def _are_sizes(sizes: object, count: int, most: int) -> TypeGuard[list[int]]:
    """Return whether these are bytes used of ``count`` rows: LoadGen reads as many."""
    return (
        isinstance(sizes, list)
        and len(sizes) == count
        and all(type(size) is int and 0 <= size <= most for size in sizes)
    )


class Network(Backend):
    """The ``network`` backend: ``servers`` are its nodes, as HOST:PORT with commas between."""

    library_bytes = 200_000_000
    joins_queries = False

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._token = read_token(str(setup.options["token_file"]))
        # A node serves one program at a time, and knows it by this.
        self._client = uuid.uuid4().hex
        self._asking = threading.Lock()
        opened = [self._opened(place) for place in addresses(str(setup.options["servers"]))]
        self._control = [connection for connection, _ in opened]
        self.nodes = [node for _, node in opened]
        _check_alike(self.nodes, setup)
        self.largest_batch = min(node.largest for node in self.nodes)

    def _opened(self, address: tuple[str, int]) -> tuple[socket.socket, NodeDescription]:
        place = f"{address[0]}:{address[1]}"
        try:
            connection = socket.create_connection(address, CONNECT_S)
        except OSError as error:
            raise HarnessError(f"no node answers at {place}: {error}", START) from error
        wire.prepare(connection)
        hello = {"kind": "hello", "protocol": wire.PROTOCOL, "client": self._client}
        try:
            answer = wire.ask(connection, {**hello, "token": self._token})
            connection.settimeout(ANSWER_S)
            return connection, _node(address, answer.head)
        except (HarnessError, KeyError, TypeError, ValueError) as error:
            connection.close()
            raise _of(place, error) from error

    def sut_name(self) -> str:
        """Return the names of all nodes, each asked over the network now, as the rules want it.

        Raises HarnessError where one does not answer.
        """
        with self._asking:
            names = list(map(_name, self._control, self.nodes))
        return f"{NAMED}: {' + '.join(names)}"

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[NetworkPredictor]:
        """See ``base.Backend``; ``workers`` connections, spread evenly over the nodes."""
        for node in self.nodes:
            check_signature("input", graph.inputs, node.inputs)
        team = islice(cycle(node.address for node in self.nodes), workers)
        return [NetworkPredictor(*self._opened(address)) for address in team]

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``: those of the nodes, which are alike."""
        return {"network": str(wire.PROTOCOL), **self.nodes[0].versions}

    def device_facts(self) -> dict[str, str]:
        """The nodes and what they compute with: it decides about figures as a device does."""
        first = self.nodes[0].facts
        keys = dict.fromkeys(key for node in self.nodes for key in node.host)
        return {
            "nodes": str(len(self.nodes)),
            "names": ", ".join(node.name for node in self.nodes),
            "backend": first["backend"],
            "computes": f"{first['model']} in {first['precision']} on {first['device']}",
            "model": first["model_sha256"],
            **{key: _several(node.host.get(key, "") for node in self.nodes) for key in keys},
        }

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """Requests in flight, whatever the cores of this machine."""
        several = (workers,) if workers else (count * len(self.nodes) for count in IN_FLIGHT)
        return [(count, 1) for count in several]

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """One: the threads are the nodes'."""
        return (1,)

    def weight_bytes(self, model: ModelSpec) -> int:
        """See ``base.Backend``: the nodes have them."""
        return 0

    def work_bytes(self, own: int) -> int:
        """See ``base.Backend``: the nodes work."""
        return 0

    def copies(self, workers: int, threads: int) -> int:
        """None: the weights are on the nodes."""
        return 0


def _several(facts: Iterable[str]) -> str:
    """What all nodes say of one thing: once, where it is the same."""
    return ", ".join(filter(None, dict.fromkeys(facts)))


def _name(connection: socket.socket, node: NodeDescription) -> str:
    try:
        return str(wire.ask(connection, {"kind": "name"}).head["name"])
    except (HarnessError, KeyError) as error:
        raise _of(node.place, error) from error


def is_token(token: object, expected: str) -> bool:
    """Return whether they are equal, in constant time."""
    return isinstance(token, str) and hmac.compare_digest(token.encode(), expected.encode())


def _node(address: tuple[str, int], head: dict[str, Any]) -> NodeDescription:
    inputs = tuple(
        TensorSpec(str(tensor["name"]), str(tensor["dtype"]), tuple(map(int, tensor["shape"])))
        for tensor in head["inputs"]
    )
    result = head["result"]
    return NodeDescription(
        address=address,
        facts={key: str(head[key]) for key in DESCRIPTION_KEYS},
        host={str(key): str(value) for key, value in head["host"].items()},
        versions={str(key): str(value) for key, value in head["versions"].items()},
        inputs=inputs,
        result=(str(result["dtype"]), tuple(map(int, result["shape"])), bool(result["variable"])),
        largest=max(1, int(head["largest"])),
    )


def _check_alike(nodes: Sequence[NodeDescription], setup: Setup) -> None:
    """Raise HarnessError for equal node names, or nodes that differ from the request."""
    names = [node.name for node in nodes]
    if len(set(names)) < len(names):
        text = f"two nodes have one name: {', '.join(names)}"
        raise HarnessError(text, "start each with a name of its own: --sut_name=NAME")
    first = nodes[0]
    for node in nodes[1:]:
        for key in DESCRIPTION_KEYS[1:]:
            if node.facts[key] != first.facts[key]:
                raise HarnessError(
                    f"the nodes differ: {key} is {first.facts[key]} at {first.place}, "
                    f"{node.facts[key]} at {node.place}",
                    "start all nodes with the same command",
                )
    expected = {"precision": setup.precision, "backend": str(setup.options["backend"])}
    for key, wanted in expected.items():
        if wanted and first.facts[key] != wanted:
            text = f"the node at {first.place} computes with {key} {first.facts[key]}, not {wanted}"
            raise HarnessError(text, f"use --{key}={first.facts[key]}, or start it anew")


def _of(address: str, error: Exception) -> HarnessError:
    message = str(error) if isinstance(error, HarnessError) else f"it told {error!r}"
    return HarnessError(f"node {address}: {message}", getattr(error, "hint", ""))
