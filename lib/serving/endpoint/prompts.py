"""What is sent: generated prompts, or those of a file; and they as the bytes of requests.

A file has one JSON object a line: ``prompt`` (text), ``messages`` (of the API), or ``turns`` (texts
of the user, one after the other; ``conversations`` of ShareGPT is read too). ``output_tokens`` or
``max_tokens`` limits the answer, ``timestamp`` (ms) says when a trace sends it.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.problems import bad_value

from .connection import EndpointConnection

COMMON = (
    "water river stone forest garden window summer winter morning evening market bridge "
    "village harbor island valley mountain letter paper picture number system engine machine "
    "factory station train road house kitchen table chair lamp clock mirror coat shoe hand "
    "voice music song dance story book page word line point circle square yellow green blue "
    "white black red small large early late quick slow bright quiet open close build carry "
    "follow answer listen travel measure record compare describe explain remember consider "
    "between without across under before after around again often never always together"
)
WORDS = tuple(COMMON.split())
SALT_DIGITS = 16
"""Hexadecimal digits in front of a prompt: 64 bits, as MLPerf Endpoints asks for."""
MOST_PROMPTS = 1_000_000
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class EndpointPrompt:
    """One request, or a conversation with several ``turns`` of the user.

    ``messages`` go before the first turn. ``most`` is the limit of output tokens, 0 for the
    server's; ``at`` when a trace sends it, in ns from its start.
    """

    turns: tuple[str, ...]
    messages: tuple[Mapping[str, Any], ...] = ()
    most: int = 0
    at: int = 0


def generated(
    count: int, inputs: tuple[int, int], outputs: tuple[int, int], seed: int
) -> tuple[EndpointPrompt, ...]:
    """Return prompts of random words, about one token each; lengths even between the bounds."""
    generator = random.Random(seed)
    return tuple(
        EndpointPrompt(
            turns=(" ".join(generator.choices(WORDS, k=generator.randint(*inputs))),),
            most=generator.randint(*outputs),
        )
        for _ in range(count)
    )


def read_prompts(path: Path, most: int) -> tuple[EndpointPrompt, ...]:
    """Return the prompts of a file; ``most`` limits answers where a line does not.

    Raises Problem, with the number of the line.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            lines = list(itertools.islice(stream, MOST_PROMPTS))
    except (OSError, UnicodeDecodeError) as error:
        raise bad_value(f"{path}: {getattr(error, 'strerror', '') or error}") from error
    if lines and lines[0].lstrip().startswith("["):
        entries = _entries_of_list(path, "".join(lines))
    else:
        entries = [_entry(path, *pair) for pair in enumerate(lines, 1) if pair[1].strip()]
    prompts = tuple(_prompt(path, number, entry, most) for number, entry in entries)
    if not prompts:
        raise bad_value(f"{path} has no prompt", hint='a line such as {"prompt": "Why?"}')
    first = min(prompt.at for prompt in prompts)
    return tuple(replace(prompt, at=prompt.at - first) for prompt in prompts)


def _entries_of_list(path: Path, text: str) -> list[tuple[int, Any]]:
    try:
        return list(enumerate(json.loads(text), 1))
    except ValueError as error:
        hint = "correct the file there, or write one prompt a line"
        raise bad_value(f"{path} is not JSON: {error}", hint=hint) from error


def _entry(path: Path, number: int, line: str) -> tuple[int, Any]:
    try:
        return number, json.loads(line)
    except ValueError as error:
        hint = 'a line is such as {"prompt": "Why?"}'
        raise bad_value(f"{path}, line {number}, is not JSON: {error}", hint=hint) from error


def _prompt(path: Path, number: int, entry: Any, most: int) -> EndpointPrompt:
    entry = {"prompt": entry} if isinstance(entry, str) else entry
    try:
        limit = int(entry.get("output_tokens") or entry.get("max_tokens") or most)
        at = round(float(entry.get("timestamp") or 0) * 1e6)
        if limit < 0:
            raise ValueError("a limit below 0")
        return EndpointPrompt(*_turns_and_context(entry), most=limit, at=at)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        text = f"{path}, entry {number}, has no prompt, messages or turns"
        raise bad_value(text, hint='{"prompt": "Why?"}') from error


def _turns_and_context(
    entry: Mapping[str, Any],
) -> tuple[tuple[str, ...], tuple[Mapping[str, Any], ...]]:
    """Return the turns of the user, and the messages before them."""
    if "messages" in entry:
        *before, last = entry["messages"]
        return (_text(last["content"]),), tuple(map(dict, before))
    if "conversations" in entry:
        human = [turn["value"] for turn in entry["conversations"] if turn["from"] == "human"]
        return tuple(map(_text, human or [None])), ()
    turns = entry["turns"] if "turns" in entry else [entry["prompt"]]
    if not turns or isinstance(turns, str):
        raise ValueError("no turn")
    return tuple(map(_text, turns)), ()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("no text")
    return value


class RequestBuilder:
    """Makes the bytes of requests; a salt in front makes a prompt a new one to the server."""

    def __init__(
        self,
        connection: EndpointConnection,
        *,
        model: str,
        chat: bool,
        body: Mapping[str, Any],
        salted: bool,
        seed: int,
    ) -> None:
        self._connection = connection
        self._model, self._chat, self._body = model, chat, body
        self._salted = salted
        self._generator = random.Random(seed)

    def new_salt(self) -> str:
        """Return new text for the front of a prompt; empty where none is wanted."""
        if not self._salted:
            return ""
        return f"{self._generator.getrandbits(4 * SALT_DIGITS):0{SALT_DIGITS}x}"

    def request(
        self,
        prompt: EndpointPrompt,
        turn: int = 0,
        said: Sequence[str] = (),
        salt: str = "",
        more: Mapping[str, Any] = NOTHING,
    ) -> bytes:
        """Return the request for a turn, after the answers ``said`` to those before it.

        ``more`` are further fields of its body.
        """
        salt = salt or self.new_salt()
        document: dict[str, Any] = {"model": self._model}
        if self._chat:
            document["messages"] = list(_messages(prompt, turn, said, salt))
        else:
            document["prompt"] = _salted(salt, _flat(prompt, turn, said))
        if prompt.most:
            document["max_tokens"] = prompt.most
        document |= {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
        document |= {**self._body, **more}
        # A field of null is one that this server does not know.
        sent = {name: value for name, value in document.items() if value is not None}
        content = json.dumps(sent).encode()
        route = "/chat/completions" if self._chat else "/completions"
        return self._connection.request_head(route, len(content)) + content


def _messages(
    prompt: EndpointPrompt, turn: int, said: Sequence[str], salt: str
) -> Iterator[Mapping[str, Any]]:
    messages: list[Mapping[str, Any]] = list(prompt.messages)
    for number, text in enumerate(prompt.turns[: turn + 1]):
        if number:
            messages.append({"role": "assistant", "content": said[number - 1]})
        messages.append({"role": "user", "content": text})
    # The salt of a conversation is the same in all turns: its own history may be cached.
    first = messages[0]
    if isinstance(first.get("content"), str):
        messages[0] = {**first, "content": _salted(salt, first["content"])}
    yield from messages


def _flat(prompt: EndpointPrompt, turn: int, said: Sequence[str]) -> str:
    if prompt.messages:
        raise bad_value("messages have roles", hint="leave out --api=completions")
    parts = list(prompt.turns[:1])
    for number in range(1, turn + 1):
        parts += [said[number - 1], prompt.turns[number]]
    return "\n".join(parts)


def _salted(salt: str, text: str) -> str:
    return f"{salt} {text}" if salt else text
