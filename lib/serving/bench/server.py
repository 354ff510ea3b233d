"""What the server says that it did between two moments."""

from __future__ import annotations

from dataclasses import dataclass

from serving.kserve import Connection, Duration, KserveError, Statistics

MS = 1e6


@dataclass(frozen=True, slots=True)
class ServerBatch:
    """Executions of one batch size, and their mean time in ms."""

    size: int
    executions: int
    infer_ms: float


@dataclass(frozen=True, slots=True)
class ServerShare:
    """Means over requests, in ms; ``requests`` counts those of all clients."""

    requests: int
    failed: int
    executions: int
    samples: int
    total_ms: float
    queue_ms: float
    input_ms: float
    infer_ms: float
    output_ms: float
    cache_hits: int
    batches: tuple[ServerBatch, ...]


def statistics(connection: Connection, model: str, version: str) -> Statistics | None:
    """Return the model's counters; None where the server has none."""
    try:
        return connection.statistics(model, version)
    except KserveError as error:
        if error.kind in ("status", "protocol"):
            return None
        raise


def share(before: Statistics | None, after: Statistics | None) -> ServerShare | None:
    """What was done between two readings; None where one is missing, or a server began anew."""
    if before is None or after is None or after.success.count <= before.success.count:
        return None

    def mean(one: Duration, other: Duration) -> float:
        count = other.count - one.count
        return (other.ns - one.ns) / count / MS if count > 0 else 0.0

    sizes = {each.batch_size: each.compute_infer for each in before.batches}
    batches = [
        ServerBatch(
            each.batch_size,
            each.compute_infer.count - sizes.get(each.batch_size, Duration()).count,
            mean(sizes.get(each.batch_size, Duration()), each.compute_infer),
        )
        for each in after.batches
    ]
    return ServerShare(
        requests=after.success.count - before.success.count,
        failed=after.fail.count - before.fail.count,
        executions=after.executions - before.executions,
        samples=after.inferences - before.inferences,
        total_ms=mean(before.success, after.success),
        queue_ms=mean(before.queue, after.queue),
        input_ms=mean(before.compute_input, after.compute_input),
        infer_ms=mean(before.compute_infer, after.compute_infer),
        output_ms=mean(before.compute_output, after.compute_output),
        cache_hits=after.cache_hit.count - before.cache_hit.count,
        batches=tuple(each for each in batches if each.executions),
    )
