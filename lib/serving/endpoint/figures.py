"""The figures of one load: latencies of streams, token rates, and what kept the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlperf.harness.jobs import RunEnergy
from serving.bench import results
from serving.bench.figures import LatencySummary, latency
from serving.bench.results import MeasuredLoad

from .load import StreamRecord

FEW = 10
"""With fewer answers within the duration a rate says little."""
AT_ONCE_SHARE = 0.1
CACHED_SHARE = 0.2
"""More of the input than a template has in front of every prompt."""


@dataclass(frozen=True, slots=True)
class StreamedRequest:
    """The times of an answered request in ns, and its tokens; ``hidden`` were not streamed."""

    due: int
    start: int
    first: int
    last: int
    done: int
    tokens: int
    input_tokens: int
    hidden: int = 0

    @property
    def ttft(self) -> int:
        """Return the time to the first token, from when the request was due."""
        return self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Return the time per output token after the first.

        None with a single token, and where all came in one read.
        """
        streamed = self.tokens - self.hidden
        is_timed = streamed > 1 and self.last > self.first
        return (self.last - self.first) / (streamed - 1) if is_timed else None

    @property
    def e2e(self) -> int:
        """Return the time to the last token."""
        return self.last - self.due


@dataclass(frozen=True, slots=True)
class StreamLatencies:
    """Time to first token, time per output token, gaps between events, and time to the last."""

    ttft: LatencySummary | None
    tpot: LatencySummary | None
    itl: LatencySummary | None
    e2e: LatencySummary | None


@dataclass(frozen=True, slots=True)
class TokenTotals:
    """Tokens of the requests that were answered within ``seconds``, and how they were counted.

    ``cached_share`` is that of the input tokens which the server says it had, of all requests;
    ``uncounted`` are requests without usage, ``undercounted`` those with more events than that
    counts tokens, ``at_once`` those whose tokens all came in one read. ``hidden`` are tokens of
    reasoning that were not streamed.
    """

    seconds: float
    requests: int
    output: int
    input: int
    cached_share: float
    uncounted: int
    undercounted: int
    at_once: int
    hidden: int
    events: int
    finishes: Mapping[str, int]

    @property
    def rate(self) -> float:
        """Return output tokens per second."""
        return self.output / self.seconds


@dataclass(frozen=True, slots=True)
class EndpointPoint(MeasuredLoad):
    """One load. ``good`` requests kept all limits.

    ``energy`` is that of the machine, with output tokens as its samples.
    """

    latencies: StreamLatencies
    tokens: TokenTotals
    good: int
    energy: RunEnergy | None = None

    @property
    def rate(self) -> float:
        """Return answered requests per second."""
        return self.tokens.requests / self.tokens.seconds

    @property
    def good_share(self) -> float:
        """Return the share of requests that kept all limits; what failed did not."""
        return self.good / self.scheduled if self.scheduled else 0.0

    @property
    def goodput(self) -> float:
        """Return good requests per second."""
        return self.rate * self.good / self.requests if self.requests else 0.0

    @property
    def token_energy(self) -> float | None:
        """Return the joules of an output token; None where no counter can be read."""
        return self.energy.per_sample_j if self.energy else None

    @property
    def user_rate(self) -> float | None:
        """Return tokens per second as one user sees them: 1/TPOT at the median."""
        tpot = self.latencies.tpot
        middle = tpot.percentile(50.0) if tpot else 0.0
        return 1e3 / middle if middle > 0 else None


def requests_of(records: Sequence[StreamRecord], since: int) -> list[StreamedRequest]:
    """Return the requests that were answered after ``since`` (ns), in the order of their ends."""
    made = [
        StreamedRequest(*times)
        for record in records
        for times in zip(
            *(record.due, record.start, record.first, record.last, record.done),
            *(record.tokens, record.input_tokens, record.hidden),
            strict=True,
        )
        if times[4] >= since
    ]
    return sorted(made, key=lambda request: request.done)


def latencies_of(
    requests: Sequence[StreamedRequest], records: Sequence[StreamRecord], percentile: float
) -> StreamLatencies:
    """Return the four latencies."""
    gaps = [gap for record in records for gap in record.gaps]
    tpots = [round(tpot) for request in requests if (tpot := request.tpot) is not None]
    return StreamLatencies(
        ttft=latency([request.ttft for request in requests], percentile),
        tpot=latency(tpots, percentile),
        itl=latency(gaps, percentile),
        e2e=latency([request.e2e for request in requests], percentile),
    )


def totals(
    requests: Sequence[StreamedRequest], records: Sequence[StreamRecord], begin: int, end: int
) -> TokenTotals:
    """Return the tokens of what was answered between two moments, in ns.

    What is still under way at the end is not waited for: while few streams are left, a server
    answers slower than with all of them.
    """
    within = [request for request in requests if request.done <= end]
    counts: Counter[str] = Counter()
    finishes: Counter[str] = Counter()
    for record in records:
        counts.update(record.counts)
        finishes.update(record.finishes)
    return TokenTotals(
        seconds=max((end - begin) / 1e9, 1e-9),
        requests=len(within),
        output=sum(request.tokens for request in within),
        input=sum(request.input_tokens for request in within),
        cached_share=counts["cached_tokens"] / (sum(r.input_tokens for r in requests) or 1),
        uncounted=counts["uncounted"],
        undercounted=counts["undercounted"],
        at_once=counts["at_once"],
        hidden=counts["hidden_tokens"],
        events=counts["events"],
        finishes=dict(finishes),
    )


def is_good(request: StreamedRequest, slo: Mapping[str, float]) -> bool:
    """Return whether a request kept all limits (ns)."""
    values = {"ttft": request.ttft, "tpot": request.tpot or 0.0, "e2e": request.e2e}
    return all(values[name] <= limit for name, limit in slo.items() if name in values)


def keeps(point: EndpointPoint, slo: Mapping[str, float], percentile: float) -> bool:
    """Return whether enough requests kept the limits; ``itl`` is looked at over all gaps."""
    gaps = point.latencies.itl
    if gaps is not None and "itl" in slo and gaps.percentile(percentile) * 1e6 > slo["itl"]:
        return False
    return point.requests > 0 and point.good_share >= percentile / 100 - 1e-9


def warnings(point: EndpointPoint, cores: int, salted: bool) -> dict[str, str]:
    """Return what a reader must know before believing the figures, by its kind."""
    texts = _token_warnings(point.tokens, point.requests, salted)
    return texts | results.client_warnings(point, cores)


def _token_warnings(tokens: TokenTotals, requests: int, salted: bool) -> dict[str, str]:
    """Return how the tokens were counted, where that is not as it should be."""
    texts = {}
    if requests and tokens.requests < FEW:
        texts["few"] = f"too few complete answers ({tokens.requests}): a longer --duration"
    if tokens.uncounted:
        texts["uncounted"] = (
            f"{tokens.uncounted} answers came without usage: their tokens are counted as events"
        )
    if tokens.undercounted:
        texts["undercounted"] = (
            f"{tokens.undercounted} answers had more events with text than usage counts tokens"
        )
    if tokens.at_once > requests * AT_ONCE_SHARE:
        texts["at_once"] = (
            f"{tokens.at_once} of {requests} answers came in one piece, and have no TPOT: a "
            "proxy collects them, or the model is faster than the network"
        )
    if tokens.hidden:
        texts["hidden"] = (
            f"{tokens.hidden} tokens of reasoning were counted and not streamed: TTFT holds their "
            "time, TPOT is of the others"
        )
    if salted and tokens.cached_share > CACHED_SHARE:
        share = 100 * tokens.cached_share
        texts["cached"] = f"the server took {share:.0f} % of the input tokens from its cache"
    return texts
