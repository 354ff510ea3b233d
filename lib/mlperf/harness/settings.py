"""The settings of a session and its runs, and LoadGen's user.conf that is made from them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf import catalog
from mlperf.catalog import (
    INTERACTIVE,
    MULTI_STREAM,
    OFFLINE,
    SERVER,
    SINGLE_STREAM,
    Division,
    Mode,
    Scenario,
    stand_in,
)

from .errors import HarnessError
from .records import WHEN_GIVEN

# Those that every benchmark may have; Interactive is one of language models.
USUAL_SCENARIOS = (SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE)
# Those that can be measured here, in the order of reports.
SCENARIOS = (SINGLE_STREAM, MULTI_STREAM, SERVER, INTERACTIVE, OFFLINE)

FIND, PERFORMANCE, ACCURACY = Mode.FIND, Mode.PERFORMANCE, Mode.ACCURACY
COMPLIANCE, README = Mode.COMPLIANCE, Mode.README
# In the order in which they follow each other: each can use what the earlier ones found.
MODES = tuple(Mode)
DEFAULT_MODES = (PERFORMANCE, ACCURACY)

FLOAT32 = "float32"

# Options of a backend by name.
Options = dict[str, str | int | float | bool]

# The name of a model's first graph.
MAIN = "main"

# The name of this harness in the name of a system under test.
IMPLEMENTATION = "cmbench"

# Milliseconds that a performance run lasts at least; None leaves the round's own ten minutes.
STYLES: dict[str, int | None] = {"test": 10_000, "fast": 120_000, "valid": None}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of a model: ``shape`` is that of one sample, without the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """One file that a backend opens, and its signature.

    ``options`` are those of its model, for the backends that generate tokens.
    """

    name: str
    path: str
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    options: dict[str, Any] = field(default_factory=dict, metadata=WHEN_GIVEN)


@dataclass(frozen=True, slots=True)
class Bound:
    """A further figure that a run must reach; ``most`` is the greatest allowed, where there is."""

    metric: str
    unit: str
    reference: float
    target: float
    most: float | None = None


@dataclass(frozen=True, slots=True)
class AccuracySpec:
    """The reference figure of a model and the least that a run must reach, both in ``unit``.

    ``further`` are the other figures of a task that is judged by several.
    """

    metric: str
    unit: str
    reference: float
    target: float
    further: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model file, its signature, and what a submission has to say about its weights.

    ``parts`` are the further files of a model that is cut into several graphs (an encoder and a
    decoder). ``options`` is what only the model's own benchmark understands. ``data_bytes`` is the
    size of weights that lie in files of their own next to the graphs.
    """

    name: str
    path: str
    sha256: str
    precision: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    accuracy: AccuracySpec
    starting_weights: str = ""
    retraining: str = "no"
    weight_transformations: str = "none"
    parts: tuple[GraphSpec, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    data_bytes: int = 0

    def graphs(self) -> tuple[GraphSpec, ...]:
        """Return all files to open: first the main one, which has the name ``MAIN``."""
        main = GraphSpec(
            MAIN, self.path, self.sha256, self.inputs, self.outputs, options=self.options
        )
        return (main, *self.parts)

    def stored_bytes(self) -> int:
        """Return the bytes of its files."""
        return self.data_bytes + sum(Path(graph.path).stat().st_size for graph in self.graphs())

    def digest(self) -> str:
        """Return the digest of all graphs: the SHA-256 of the only file, or of all."""
        if not self.parts:
            return self.sha256
        return hashlib.sha256(" ".join(g.sha256 for g in self.graphs()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the user fixed by hand; None leaves the choice to the harness. Latencies are in ms.

    ``deque_timeout_us`` is how long a Server batch may wait for more queries, in microseconds.
    ``seed`` is what LoadGen's seeds follow from instead of being those of the round.
    """

    offline_target_qps: float | None = None
    server_target_qps: float | None = None
    singlestream_target_latency: float | None = None
    multistream_target_latency: float | None = None
    min_duration: int | None = None
    min_query_count: int | None = None
    max_query_count: int | None = None
    performance_sample_count: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    num_workers: int | None = None
    deque_timeout_us: int | None = field(default=None, metadata=WHEN_GIVEN)
    seed: int | None = field(default=None, metadata=WHEN_GIVEN)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What another person needs to repeat a run: ``steps`` are the commands of its parts."""

    command: str = ""
    directory: str = ""
    revision: str = ""
    repository: str = ""
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One call of the harness: what to measure, how long, and where the results go.

    ``precision`` is what the backend computes in, which may differ from the model file's.
    ``reuse`` keeps VALID runs of the same settings that the results hold already. ``sut_dir`` is
    the folder of measured targets, "" for none. An INVALID run is made ``attempts`` times at
    most, and a session waits ``wait_s`` in all for a host that is busy with something else (None:
    by its style). ``answer`` is a file for a second copy of results.json, at a place that the
    caller knows beforehand. ``backend_options`` are what the user gave, without defaults.
    ``scenario_models`` are other files of the model for some scenarios, such as engines for other
    batches.
    """

    benchmark: str
    form: str
    backend: str
    device: str
    model: ModelSpec
    dataset: str
    results_dir: str
    hw_name: str
    round: str
    scenarios: tuple[Scenario, ...] = USUAL_SCENARIOS
    modes: tuple[Mode, ...] = DEFAULT_MODES
    style: str = "test"
    category: str = ""
    division: Division = Division.CLOSED
    reuse: bool = False
    answer: str = ""
    sut_dir: str = ""
    attempts: int = 3
    wait_s: float | None = None
    precision: str = FLOAT32
    overrides: Overrides = field(default_factory=Overrides)
    provenance: Provenance = field(default_factory=Provenance)
    backend_options: Options = field(default_factory=dict, metadata=WHEN_GIVEN)
    scenario_models: dict[str, ModelSpec] = field(default_factory=dict, metadata=WHEN_GIVEN)

    def __post_init__(self) -> None:
        for name, values, known in (
            ("scenarios", self.scenarios, SCENARIOS),
            ("modes", self.modes, MODES),
            ("style", (self.style,), tuple(STYLES)),
            ("division", (self.division,), tuple(Division)),
            ("precision", (self.precision,), _precisions()),
            ("scenario_models", tuple(self.scenario_models) or SCENARIOS, SCENARIOS),
        ):
            wrong = [value for value in values if value not in known]
            if wrong or not values:
                invalid = wrong[0] if wrong else "nothing"
                raise HarnessError(f"{name}: expected one of {', '.join(known)}; found {invalid}")

    def model_of(self, scenario: Scenario) -> ModelSpec:
        """Return the model that a scenario is measured with."""
        return self.scenario_models.get(scenario, self.model)

    def sut(self, backend_version: str) -> str:
        """Return the name of the system under test: machine, implementation, device, backend."""
        machine = re.sub(r"[^A-Za-z0-9._]+", "_", self.hw_name) or "machine"
        version = f"-v{backend_version}" if backend_version else ""
        return f"{machine}-{IMPLEMENTATION}-{self.device}-{self.computes}{version}-default_config"

    @property
    def computes(self) -> str:
        """Return the backend, with what computes behind it where an option decides that."""
        known = catalog.backends().get(self.backend)
        return (known and known.where(self.backend_options).named) or self.backend


def _precisions() -> tuple[str, ...]:
    """What any backend computes in."""
    known = (precision for spec in catalog.backends().values() for precision in spec.precisions)
    return tuple(dict.fromkeys(known))


@dataclass(frozen=True, slots=True)
class Setup:
    """What a backend is made for; ``options`` holds every option that its specification has."""

    device: str
    precision: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """A division of a machine: workers, threads per worker, most samples in a batch."""

    workers: int
    threads: int
    batch: int


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of a LoadGen run: samples/s (Offline, Server) or ms per query (streams).

    ``origin`` says where the figure comes from: an option, the stored targets, a calibration.
    """

    qps: float | None = None
    latency_ms: float | None = None
    min_duration_ms: int | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One LoadGen run: one scenario in one mode, in a process of its own.

    ``service_times`` maps a batch size (as text, for JSON) to the seconds the backend needs for
    it; the Server batcher reads it. ``folder`` is private to the run until it is complete.
    ``audit`` is the text of a compliance test's audit.config.
    """

    benchmark: str
    backend: str
    device: str
    model: ModelSpec
    dataset: str
    scenario: Scenario
    mode: Mode
    style: str
    shape: WorkerShape
    targets: Targets
    overrides: Overrides
    folder: str
    service_times: dict[str, float] = field(default_factory=dict)
    precision: str = FLOAT32
    audit: str = ""
    backend_options: Options = field(default_factory=dict)


def user_conf(
    run: RunSettings,
    loadgen_key: str,
    sample_count: int,
    unknown: Mapping[str, float] | None = None,
) -> str:
    """Return the user.conf of a run: only keys that differ from the round's built-in mlperf.conf.

    ``loadgen_key`` is the model's name in mlperf.conf and ``sample_count`` the number of samples
    that performance runs keep loaded. ``unknown`` are the rules of a benchmark that mlperf.conf
    does not know. Latencies and durations are in milliseconds.
    """
    overrides = run.overrides
    short = run.style != "valid"
    offline_minimum = 1 if short and run.scenario.batched else None
    values: dict[str, Any] = {
        "target_qps": run.targets.qps,
        "target_latency": run.targets.latency_ms or (unknown or {}).get("target_latency"),
        "min_duration": run.targets.min_duration_ms,
        "min_query_count": overrides.min_query_count
        or offline_minimum
        or (unknown or {}).get("min_query_count"),
        "max_query_count": overrides.max_query_count,
        "performance_sample_count_override": sample_count,
    }
    stands_in = stand_in.line(run.backend, run.device, run.backend_options)
    comment = f"# {stands_in}\n" if stands_in else ""
    return comment + "".join(
        f"{loadgen_key}.{run.scenario.loadgen}.{key} = {_number(value)}\n"
        for key, value in values.items()
        if value is not None
    )


def _number(value: float | int) -> str:
    """LoadGen reads plain decimal numbers only, never an exponent."""
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
