"""What goes wrong with a request: its kind, the server's words without secrets, the next step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from common.problems import Hint
from serving.http_client import HttpFault, NotHttpFault

HTML = "a page of HTML, and no answer of the API"
LONGEST_MESSAGE = 300
HIDDEN = "***"
LEAST_SECRET = 6
"""A shorter header value, such as ``yes``, is no secret, and hiding it would garble messages."""
API_HINT = "check --url, which ends in /v1; --api=completions is the other route"
SERVER_HINT = "read the log of the server"
WRONG_URL_HINT = "does the URL end in /v1, and is the model's name right? --url, --model"

NEXT_STEPS: Mapping[str, str] = {
    "refused": "check --url, and that the server runs",
    "reset": SERVER_HINT,
    "timeout": "--timeout=SECONDS",
    "tls": "http:// or https:// in --url, or --tls_ca=FILE",
    "protocol": f"{SERVER_HINT}, and try another version of it: it does not keep to the API",
    "server-error": SERVER_HINT,
    "cut-off": f"{SERVER_HINT}, and of a proxy before it: who ends long answers?",
    "empty": "other prompts (--dataset=FILE), or --body='{\"ignore_eos\": true}' if it knows that",
    "too-long": "is the limit known there by another name? --body='{\"max_completion_tokens\": N}'",
    "status-400": "--body='{\"FIELD\": null}' leaves a field out that the server does not know",
    "status-401": "--api_key_env=NAME of a variable that holds the key",
    "status-403": "--api_key_env=NAME of a variable that holds the key",
    "status-404": WRONG_URL_HINT,
    "status-405": WRONG_URL_HINT,
    "status-429": "less at a time: --concurrency, --rate",
    "status-503": "less at a time: --concurrency, --rate",
}
"""What to do next, by the kind of a failure."""


class EndpointFault(Exception):  # noqa: N818
    """A request that failed. ``kind`` is counted in results; ``hint`` is the next step."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(printable(message))
        self.kind = kind
        self.hint = Hint(hint or next_step(kind))

    def without(self, secrets: Sequence[str]) -> EndpointFault:
        """Return it without these texts, which a server may send back."""
        message = str(self)
        for secret in secrets:
            message = hidden(message, secret)
        return self if message == str(self) else EndpointFault(self.kind, message, self.hint)


def hidden(text: str, secret: str) -> str:
    """Return a text without a secret, as it is or quoted for a URL, nor what a cut left of it."""
    plain = unquote(text)
    if secret in plain and secret not in text:
        text = plain
    least = secret[: max(LEAST_SECRET, len(secret) // 3)]
    start = text.find(least)
    while start >= 0:
        lengths = range(len(secret), 0, -1)
        length = next(n for n in lengths if text.startswith(secret[:n], start))
        text = text[:start] + HIDDEN + text[start + length :]
        start = text.find(least, start + len(HIDDEN))
    return text


def next_step(kind: str) -> str:
    """Return what to do after failures of a kind."""
    kind = "status-400" if kind == "status-422" else kind
    return NEXT_STEPS.get(
        kind, API_HINT if kind.startswith(("status-2", "status-3")) else SERVER_HINT
    )


def printable(text: str) -> str:
    """Return a text with spaces in place of what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)


def read_json(data: bytes) -> Any:
    """Return what JSON says; raise ValueError for what is none, or nested too deep to be read."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def error_text(body: bytes) -> str:
    """Return the message of an error of the API, or the text itself."""
    try:
        document = read_json(body)
    except ValueError:
        return HTML if body.lstrip()[:1] == b"<" else body.decode("utf-8", "replace")
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return error if isinstance(error, str) else json.dumps(error)


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> EndpointFault:
    """Return what a status other than 200 means, in the server's words.

    A redirection is not followed: the key goes to nobody but the URL that was named.
    """
    message = " ".join(error_text(body).split())[:LONGEST_MESSAGE]
    hint = WRONG_URL_HINT if message == HTML else ""
    if target := headers.get("location", "") if 300 <= status < 400 else "":
        message = f"it redirects to {target[:LONGEST_MESSAGE]}"
        hint = "name that server, if it is yours, with --url=http://HOST:PORT/v1"
    elif wait := headers.get("retry-after", "") if status in (429, 503) else "":
        hint = f"the server asks to wait {wait + ' s' if wait.isdigit() else 'until ' + wait}"
        message = f"{message or 'no reason'} (Retry-After: {wait[:40]})"
    elif status == 400 and "context" in message.lower():
        hint = "fewer --input_tokens or --output_tokens, or a larger context of the server"
    return EndpointFault(f"status-{status}", f"HTTP {status}: {message or 'no reason'}", hint)


def from_network(fault: HttpFault) -> EndpointFault:
    """Return what the network said of an exchange."""
    return EndpointFault(
        fault.kind, str(fault), API_HINT if isinstance(fault, NotHttpFault) else ""
    )
