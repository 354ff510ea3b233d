"""What a step has read, as messages show it: fingerprints in words."""

from __future__ import annotations

from cmbench.cache.keyed import is_keyed
from cmbench.format.env import MISSING


def changed(key: str, then: str, now: str) -> str:
    """A recorded read that has another fingerprint now, in words."""
    space, colon, name = key.partition(":")
    if colon and space == "laid":
        return f"settings gave back {then or 'nothing'} of {name}, give {now or 'nothing'} now"
    if colon and space == "all":
        return "it reads its whole env, and other keys are set now"
    if key == "call:":
        return "it reads all inputs, and others are given now"
    if space == "call":
        key = f"--{name}"
    if key == "os:*":
        return "it reads all environment variables, and some have changed"
    if key.startswith("os:HOST/"):
        return f"the {key[8:]} of this machine was {then}, is {now}"
    if key.startswith("os:PATH/"):
        if "/" in key[8:]:
            return f"{key[8:]} was {_none(then)}, is {_none(now)}"
        return f"the first {key[8:]} in PATH was {_none(then)}, is {_none(now)}"
    if is_keyed(then):
        return f"{key} has another value, a secret"
    return f"{key} was {shown_value(then)}, is {shown_value(now)}"


def _none(then: str) -> str:
    return "none" if then == MISSING else then


def shown_value(text: str) -> str:
    """A fingerprint as a message shows it."""
    if text == MISSING:
        return "not set"
    if text.startswith("\0"):
        return text[1:]
    return text if text.startswith("sha256:") else f'"{text}"'
