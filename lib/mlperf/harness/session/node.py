"""A node of a system under test: it answers samples that come over the network, until it is ended.

Everything that the rules keep from the LoadGen side of the network division is done here: samples
of several queries go through the model together, they are filled up to one length, and what comes
out of the model becomes the results. Nothing of a sample is kept once it is answered.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import entrance, host, records
from ..backends import registry as backends
from ..backends import wire
from ..backends.network import SAMPLE, is_token
from ..backends.wire import SampleGroup, WireError, WireFrame
from ..benchmarks import registry as benchmarks
from ..benchmarks.base import Array, Benchmark, Solver
from ..errors import HarnessError
from ..pipeline.batcher import DeadlinePolicy
from ..pipeline.inference import teams
from ..pipeline.queue import DynamicBatcher
from ..pipeline.remote import sample_tensors
from ..progress import ProgressWriter
from ..settings import Options, SessionSettings, WorkerShape
from ..tuning.profile import SpeedProfile
from . import preparation, process
from .launch import Launcher, say

# A peer has so long to say who it is; after that it may be silent between two runs.
HELLO_S = 10.0
# Samples that may come in one request.
LARGEST = 64
TELL_S = 1.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a node: its session and its address.

    ``address`` is HOST:PORT to listen at; ``token_file`` holds the secret of those who may ask.
    """

    session: SessionSettings
    address: str = f"127.0.0.1:{entrance.PORT}"
    name: str = ""
    token_file: str = ""


def main(config: Path) -> int:
    """Serve as ``config`` says until SIGINT or SIGTERM, which are no error; the answer is 0.

    Raises HarnessError where it cannot be served: no model, no port, no token.
    """
    settings = records.read(NodeSettings, config)
    try:
        with process.interruptible():
            _serve(settings)
    except process.InterruptSignal as stop:
        say(f"{stop}: the node has ended")
    return 0


def _serve(settings: NodeSettings) -> None:
    place, token = entrance.of_node(settings.address, settings.token_file)
    session = settings.session
    if backends.builds(session.backend, session.precision):
        text = f"{session.backend} builds its models for a session, which a node does not do yet"
        raise HarnessError(text, "choose another --backend for the nodes")
    options = backends.chosen(session.backend, session.backend_options)
    with backends.service(
        session.backend, session.device, session.precision, options, (session.model,)
    ) as more:
        engine = NodeModel.of(session, {**options, **more})
        with _listening(place) as listener:
            port = listener.getsockname()[1]
            name = settings.name or f"{session.hw_name or 'node'}-{port}"
            say(f"node {name} serves {session.benchmark} ({session.backend}) at {place[0]}:{port}")
            say(f"next, at the LoadGen node: --network=lon --sut_servers={place[0]}:{port}")
            label = f"serving as {name} at {place[0]}:{port}"
            threading.Thread(target=_tell, args=(label, engine), daemon=True).start()
            NodeListener(listener, engine, {**engine.facts(session), "name": name}, token).open()


def _tell(label: str, engine: NodeModel) -> None:
    """Say again and again how much was answered."""
    progress = ProgressWriter()
    while True:
        progress.report(label, engine.answered, engine.answered, "samples")
        time.sleep(TELL_S)


def _listening(address: tuple[str, int]) -> socket.socket:
    kind = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=kind, backlog=256)
    except OSError as error:
        text = f"cannot listen at {address[0]}:{address[1]}: {error}"
        raise HarnessError(text, "choose another --sut_address=HOST:PORT") from error


@dataclass(slots=True)
class NodeRequest:
    """The samples of one frame, and room for their results; ``left`` counts those not yet there."""

    groups: Sequence[SampleGroup]
    results: Array
    sizes: Array
    left: int
    error: str = ""
    done: threading.Event = field(default_factory=threading.Event)


# A group of a request, and the row of its first result.
QueuedGroup = tuple[NodeRequest, SampleGroup, int]


@dataclass(frozen=True, slots=True)
class NodeWorker:
    """A solver with a benchmark of its own, which holds the samples of one batch at a time."""

    benchmark: Benchmark
    solver: Solver
    # Whether it is best called by few threads.
    few_callers: bool = False

    def compute(self, groups: Sequence[SampleGroup], results: Array, sizes: Array) -> None:
        """Write the result of every sample into its row of ``results`` [n, *Result.shape].

        ``sizes`` [n] is as in ``benchmarks.base.Solver``. Raises IndexError for a sample that the
        data set has not, and what the solver raises.
        """
        numbers = np.concatenate([group.tensors[SAMPLE.name] for group in groups])
        if not 0 <= numbers.min() <= numbers.max() < self.benchmark.sample_count:
            raise IndexError(f"there are samples 0 to {self.benchmark.sample_count - 1}")
        self.benchmark.hold(numbers, [group.tensors for group in groups])
        try:
            self.solver.solve(numbers, results, sizes)
        finally:
            self.benchmark.unload()


class NodeModel:
    """The model in the layout that was found best, behind a queue that joins samples."""

    def __init__(
        self, team: Sequence[NodeWorker], profile: SpeedProfile, facts: dict[str, Any]
    ) -> None:
        self.benchmark = team[0].benchmark
        self.inputs = (SAMPLE, *sample_tensors(self.benchmark))
        self._facts = facts
        self._capacity = profile.server.shape.batch
        times = {int(size): seconds for size, seconds in profile.service_times.items()}
        policy = DeadlinePolicy(self.benchmark.rules.server_limit_s, self._capacity, times)
        self._queue = DynamicBatcher(policy)
        self._numbers = itertools.count()
        self.answered = 0
        self._waiting: dict[int, QueuedGroup] = {}
        self._ending = threading.Lock()
        # Of the workers, those that compute nothing; a predictor may be used by one thread after
        # another, never by two at once. Notified when something waits or a worker gets idle.
        self._idle = list(team)
        self._is_at_once = not any(worker.few_callers for worker in team)
        self._turn = threading.Condition()
        for number in range(len(team)):
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True).start()

    @classmethod
    def of(cls, session: SessionSettings, options: Options) -> NodeModel:
        """Tune and open what a session requests; raises HarnessError where that cannot be."""
        launcher, model = Launcher(), session.model

        def benchmark() -> Benchmark:
            return benchmarks.create(session.benchmark, Path(session.dataset), model)

        sample_tensors(benchmark())
        how = (session.backend, session.device, session.precision)
        backend = backends.create(*how, options)
        profile = preparation.measure_profile_of_files(launcher, session, model, options)
        shape: WorkerShape = profile.server.shape
        team = []
        for predictors in teams(backend, model, benchmark(), shape):
            own, few = benchmark(), any(predictor.few_callers for predictor in predictors.values())
            team.append(NodeWorker(own, own.solver(predictors, shape.batch), few))
        facts = {"versions": backend.versions(), "device_facts": backend.device_facts()}
        return cls(team, profile, facts)

    def facts(self, session: SessionSettings) -> dict[str, Any]:
        """Return the node's description; see ``backends.network.NodeDescription``."""
        result, local_facts = self.benchmark.result, host.facts()
        machine = {
            "cpu": local_facts.cpu_model,
            "cores": f"{local_facts.cores_usable} cores",
            "memory": f"{local_facts.memory_bytes / 2**30:.0f}GB",
            "system": local_facts.system,
            **self._facts["device_facts"],
        }
        return {
            "benchmark": session.benchmark,
            "backend": session.backend,
            "precision": session.precision,
            "device": session.device,
            "model": session.model.name,
            "model_sha256": session.model.digest(),
            "samples": self.benchmark.sample_count,
            "versions": self._facts["versions"],
            "host": machine,
            "inputs": records.encode(self.inputs),
            "result": {
                "dtype": str(result.dtype),
                "shape": result.shape,
                "variable": result.variable,
            },
            "largest": LARGEST,
        }

    def answer(self, groups: Sequence[SampleGroup]) -> NodeRequest:
        """Compute these samples with those of others; return when all are done."""
        pieces = [piece for group in groups for piece in group.pieces(self._capacity)]
        count = sum(piece.count for piece in pieces)
        sizes = np.full(count, self.benchmark.result.row_bytes, np.int64)
        request = NodeRequest(groups, self.benchmark.result.rows(count), sizes, len(pieces))
        if len(pieces) == 1 and self._at_once((request, pieces[0], 0)):
            return request
        self._enqueue(request, pieces)
        request.done.wait()
        return request

    def _enqueue(self, request: NodeRequest, pieces: Sequence[SampleGroup]) -> None:
        """Let the pieces of a request wait for a worker."""
        row = 0
        with self._turn:
            keys = list(itertools.islice(self._numbers, len(pieces)))
            for key, piece in zip(keys, pieces, strict=True):
                self._waiting[key] = (request, piece, row)
                row += piece.count
            self._queue.put(keys, keys)
            self._turn.notify(len(keys))

    def _at_once(self, request: QueuedGroup) -> bool:
        """Compute it in the thread of its connection, where nothing waits and a worker is idle.

        That spares two handoffs between threads, most of what a small sample costs.
        """
        with self._turn:
            if self._waiting or not (self._idle and self._is_at_once):
                return False
            worker = self._idle.pop()
        with self._returned(worker):
            self._compute(worker, [request])
        return True

    def _work(self) -> None:
        while True:
            # Joined only when a worker is there: all that has come by then can go together.
            with self._turn:
                self._turn.wait_for(lambda: self._waiting and self._idle)
                worker, batch = self._idle.pop(), self._queue.next()
                taken = [self._waiting.pop(key) for key in batch.ids] if batch else []
            with self._returned(worker):
                for together in _joined(taken, self._capacity):
                    self._compute(worker, together)

    @contextmanager
    def _returned(self, worker: NodeWorker) -> Iterator[None]:
        """Let a worker be idle again, whatever becomes of what it does."""
        try:
            yield
        finally:
            with self._turn:
                self._idle.append(worker)
                if self._waiting:
                    self._turn.notify()

    def _compute(self, worker: NodeWorker, batch: Sequence[QueuedGroup]) -> None:
        count = sum(group.count for _, group, _ in batch)
        result, problem = self.benchmark.result, ""
        rows = result.rows(count)
        sizes = np.full(count, result.row_bytes, np.int64)
        try:
            worker.compute([group for _, group, _ in batch], rows, sizes)
        except Exception as error:  # whatever it is, the other side must get its answer
            problem = f"{type(error).__name__}: {error}"
        start = 0
        for request, group, row in batch:
            end = start + group.count
            request.results[row : row + group.count] = rows[start:end]
            request.sizes[row : row + group.count] = sizes[start:end]
            start = end
            with self._ending:
                self.answered += group.count
                request.error = request.error or problem
                request.left -= 1
                if not request.left:
                    request.done.set()


def _joined(taken: Sequence[QueuedGroup], most: int) -> Iterator[list[QueuedGroup]]:
    """Yield those that go through the model together: ``most`` samples at most."""
    batch: list[QueuedGroup] = []
    count = 0
    for entry in taken:
        if batch and count + entry[1].count > most:
            yield batch
            batch, count = [], 0
        batch.append(entry)
        count += entry[1].count
    yield batch


class NodeListener:
    """A TCP server that checks tokens: one client program at a time, a thread per connection."""

    def __init__(
        self, listener: socket.socket, engine: NodeModel, facts: dict[str, Any], token: str
    ) -> None:
        self._listener = listener
        self._engine = engine
        self._facts = facts
        self._token = token
        self._inside: dict[str, int] = {}
        self._counting = threading.Lock()

    def open(self) -> None:
        """Accept connections until the process ends."""
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._served, args=(connection,), daemon=True).start()

    def _served(self, connection: socket.socket) -> None:
        client = ""
        with connection:
            try:
                wire.prepare(connection)
                connection.settimeout(HELLO_S)
                client = self._welcomed(connection)
                connection.settimeout(None)
                while client and (frame := wire.receive(connection)) is not None:
                    self._answered(connection, frame)
            except WireError as error:
                _refuse(connection, error)
            finally:
                self._left(client)

    def _welcomed(self, connection: socket.socket) -> str:
        """Return the client after the handshake; raises WireError for a client without access."""
        hello = wire.receive(connection, most=0)
        if hello is None:
            return ""
        client = str(hello.head.get("client", ""))[:64]
        if hello.kind != "hello" or hello.head.get("protocol") != wire.PROTOCOL or not client:
            text = f"this node speaks protocol {wire.PROTOCOL}"
            raise WireError(text, "use the same version of cmbench on both sides")
        if not is_token(hello.head.get("token"), self._token):
            raise WireError("the token is not this node's", "give the same --sut_token_file")
        with self._counting:
            if self._inside and client not in self._inside:
                raise WireError("another client is measuring it now", "try again later")
            self._inside[client] = self._inside.get(client, 0) + 1
        try:
            wire.send(connection, {"kind": "node", **self._facts})
        except WireError:
            self._left(client)
            raise
        return client

    def _answered(self, connection: socket.socket, frame: WireFrame) -> None:
        if frame.kind == "name":
            wire.send(connection, {"kind": "name", "name": self._facts["name"]})
            return
        if frame.kind != "samples":
            raise WireError(f"nothing is known of {frame.kind[:40]!r}")
        request = self._engine.answer(wire.unpacked(frame, self._engine.inputs, LARGEST))
        if request.error:
            raise WireError(f"the model failed: {request.error}")
        rows = request.results.reshape(len(request.results), -1).view(np.uint8)
        if not self._engine.benchmark.result.variable:
            wire.send(connection, {"kind": "results"}, [rows.reshape(-1)])
            return
        sizes = request.sizes.tolist()
        used = [row[:size] for row, size in zip(rows, sizes, strict=True)]
        wire.send(connection, {"kind": "results", "sizes": sizes}, used)

    def _left(self, client: str) -> None:
        with self._counting:
            if client in self._inside:
                self._inside[client] -= 1
                if not self._inside[client]:
                    del self._inside[client]


def _refuse(connection: socket.socket, error: WireError) -> None:
    try:
        wire.send(connection, {"kind": "error", "text": str(error), "advice": error.hint.marked})
    except WireError:
        return
