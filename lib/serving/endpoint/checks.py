"""Checks before a load: the model is there, it streams, and its figures mean what they seem to.

Each check answers a way in which a benchmark of language models deceives: tokens that come several
in an event, a cache that has the prompt, batching that changes answers.
"""

from __future__ import annotations

import difflib
import secrets
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common.problems import Problem

from .answers import StreamedAnswer, request_answer
from .connection import models
from .faults import EndpointFault
from .measure import EndpointTarget, connect
from .options import EndpointCall
from .prompts import WORDS, EndpointPrompt, generated

CACHED_RATIO = 0.7
"""A repeated prompt that takes at most this share of the time of a new one was cached."""
PAIRS = 5
AGREEING = 4
LONG_WORDS = 512
SHORT_WORDS = 16
REFUSED_PROMPT = ("status-400", "status-413", "status-422")
MOST_TOKENS = 32
TOGETHER = 8
MODELS_S = 30.0
"""Whoever needs longer for the list of its models does not answer at all."""
START_ONE = "start one: `cm run script --tags=run,llama-server --model_path=MODEL.gguf`"


@dataclass(frozen=True, slots=True)
class PrefixCacheCheck:
    """Times to the first token (ms) of new prompts and of the same ones again.

    ``cached`` is None where neither the times nor the server's own count say it.
    """

    new_ms: float
    again_ms: float
    reported: int
    cached: bool | None


@dataclass(frozen=True, slots=True)
class EndpointChecks:
    """What the first requests showed; tokens are those of one answer, by every way to count."""

    first_ms: float
    events: int
    usage: int | None
    ids: int | None
    finish: str
    cache: PrefixCacheCheck | None = None
    compared: int = 0
    equal: int = 0
    failed_together: int = 0
    failure: str = ""

    def notes(self, salted: bool) -> tuple[str, ...]:
        """Return what a reader must know of all figures."""
        texts = []
        if self.usage is None:
            texts.append("the server sends no usage: tokens are counted as events")
        elif self.events < self.usage - 1:  # an end token is counted, and has no text
            texts.append(
                f"several tokens come in one event ({self.usage} tokens in {self.events} events): "
                "ITL is that of events"
            )
        if self.ids is not None and self.usage is not None and self.ids != self.usage:
            texts.append(f"the server sent {self.ids} token ids and counts {self.usage} tokens")
        if self.cache and self.cache.cached and not salted:
            texts.append("the server's prefix cache is part of these figures: --salt=no")
        elif self.cache and self.cache.cached is None and not salted:
            texts.append("whether the server caches prompts could not be seen: --salt=no")
        if self.failed_together:
            texts.append(
                f"{self.failed_together} of {TOGETHER} requests at once failed: {self.failure}"
            )
        if self.equal < self.compared:
            different = self.compared - self.equal
            texts.append(
                f"{different} of {self.compared} greedy answers change when {TOGETHER} are asked "
                "at once"
            )
        return tuple(texts)


def find_model(call: EndpointCall) -> str:
    """Return the model's name; raise Problem where the endpoint does not say, or lacks it."""
    wanted, names = call.endpoint.model, _listed_models(call)
    if names is None:
        return wanted
    if wanted and names and wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.4) or names[:1]
        text = f"the server has no model {wanted}; it has {', '.join(names[:8])}"
        raise Problem("server-failed", text, hint=f"--model={near[0]}")
    if not wanted and len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise Problem(
            "server-failed",
            f"the server lists several models or none: {listed}",
            hint="--model=NAME",
        )
    return wanted or names[0]


def _listed_models(call: EndpointCall) -> list[str] | None:
    """Return the models that the server lists; None where it lists none and one is named."""
    settings = call.endpoint
    connection = connect(replace(settings, timeout=min(settings.timeout, MODELS_S)))
    try:
        return list(models(connection))
    except EndpointFault as error:
        if call.endpoint.model and error.kind in ("status-404", "status-405", "protocol"):
            return None
        raise explained(error) from error
    finally:
        connection.close()


def first_answer(target: EndpointTarget) -> EndpointChecks:
    """Send one request and read all of its stream; raise Problem where that fails."""
    prompt = replace(target.prompts[0], turns=target.prompts[0].turns[:1])
    try:
        answer, first = _ask(target, prompt, more={"return_token_ids": True})
    except EndpointFault as error:
        # Not every server takes a field that it does not know.
        if error.kind not in ("status-400", "status-422"):
            raise explained(error) from error
        answer, first = _ask_or_explain(target, prompt)
    return EndpointChecks(
        first_ms=first,
        events=answer.events,
        usage=answer.tokens if "completion_tokens" in answer.usage else None,
        ids=answer.ids or None,
        finish=answer.finish,
    )


def prefix_cache(target: EndpointTarget) -> PrefixCacheCheck:
    """Return whether a prompt that was sent before is answered sooner; raise Problem.

    Prompts are long, since a cache saves little of a short one, and shorter where the context of
    the model has no room for that.
    """
    words = max(LONG_WORDS, min(target.call.prompts.inputs[1], 4 * LONG_WORDS))
    while True:
        try:
            return _prefix_cache(target, words)
        except EndpointFault as error:
            if error.kind not in REFUSED_PROMPT or words < 2 * SHORT_WORDS:
                raise explained(error) from error
        words //= 2


def _prefix_cache(target: EndpointTarget, words: int) -> PrefixCacheCheck:
    seed = target.call.prompts.seed ^ 0x5EED
    new: list[float] = []
    again: list[float] = []
    reported = 0
    for prompt in generated(PAIRS, (words, words), (4, 4), seed):
        # New from its beginning: what a run before has left in the cache does not count.
        salt = secrets.token_hex(8)
        new.append(_ask(target, prompt, salt)[1])
        answer, repeated = _ask(target, prompt, salt)
        again.append(repeated)
        reported += answer.cached_tokens
    return judge(new, again, reported, words)


def judge(
    new: Sequence[float], again: Sequence[float], reported: int, words: int = LONG_WORDS
) -> PrefixCacheCheck:
    """Return what times to the first token (ms) of prompts and of their repetitions say.

    ``reported`` are the input tokens that the server says it took from its cache, ``words`` those
    of a prompt. A template in front of every prompt may be cached where prompts are not, so few of
    them say nothing.
    """
    faster = sum(b <= CACHED_RATIO * a for a, b in zip(new, again, strict=True))
    cached = None
    if reported >= len(new) * words // 2 or faster >= AGREEING:
        cached = True
    elif faster <= len(new) - AGREEING:
        cached = False
    return PrefixCacheCheck(statistics.median(new), statistics.median(again), reported, cached)


def with_equal_answers(target: EndpointTarget, proof: EndpointChecks) -> EndpointChecks:
    """Return ``proof`` with how many greedy answers are the same alone and together.

    Those that failed together are compared with nothing. Raises Problem where one alone fails.
    """
    seed = target.call.prompts.seed ^ 0xE0A1
    most = target.call.prompts.inputs[1]
    prompts = generated(TOGETHER, (min(16, most), min(48, most)), (MOST_TOKENS, MOST_TOKENS), seed)
    salt = f"{WORDS[seed % len(WORDS)]}:" if target.call.prompts.salted else ""
    alone = ["".join(_ask_or_explain(target, prompt, salt)[0].text) for prompt in prompts]
    together: list[str | EndpointFault] = [""] * len(prompts)

    def ask(number: int) -> None:
        try:
            together[number] = "".join(_ask(target, prompts[number], salt)[0].text)
        except EndpointFault as error:
            together[number] = error

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faults = [text for text in together if isinstance(text, EndpointFault)]
    return replace(
        proof,
        compared=len(prompts) - len(faults),
        equal=sum(a == b for a, b in zip(alone, together, strict=True)),
        failed_together=len(faults),
        failure=f"({faults[0].kind}) {faults[0]}" if faults else "",
    )


def explained(error: EndpointFault) -> Problem:
    """Return the failure with what to do next."""
    hint = START_ONE if error.kind == "refused" else error.hint
    return Problem("server-failed", f"({error.kind}) {error}", hint=hint)


def _ask_or_explain(
    target: EndpointTarget, prompt: EndpointPrompt, salt: str = ""
) -> tuple[StreamedAnswer, float]:
    try:
        return _ask(target, prompt, salt)
    except EndpointFault as error:
        raise explained(error) from error


def _ask(
    target: EndpointTarget,
    prompt: EndpointPrompt,
    salt: str = "",
    more: Mapping[str, Any] | None = None,
) -> tuple[StreamedAnswer, float]:
    """Return the whole answer, and the ms to its first token; raise EndpointFault."""
    connection = connect(target.call.endpoint)
    answer = StreamedAnswer(whole=True)
    try:
        request = target.builder(connection, -1).request(prompt, salt=salt, more=more or {})
        begin = time.perf_counter_ns()
        request_answer(connection, request, answer, prompt.most)
    finally:
        connection.close()
    return answer, (answer.first - begin) / 1e6
