"""What a step has read, as messages show it: fingerprints in words."""

from __future__ import annotations

from cmbench.cache.secret_fingerprints import is_keyed
from cmbench.format.env import MISSING
from cmbench.format.merge import USER
from cmbench.format.outside import HOST, IN_PATH, UNOBSERVED
from cmbench.plan.step_run import ALL


def subject_of_read(key: str) -> str:
    """Return the subject of a recorded read in words, without the prefix of its key."""
    space, colon, name = key.partition(":")
    if not colon:
        return key
    if space == "os":
        return _of_process(name)
    words = {
        "adr": f"changes of the dependency {name.removeprefix(USER)}",
        "all": "the names of all keys in its env",
        "call": f"--{name}" if name else "all inputs",
        "const": f"the constant {name}",
        "request": _of_request(name),
        "laid": f"what settings gave back of {name}",
        "state": f"{name} in the state",
    }
    return words.get(space, key)


def _of_process(name: str) -> str:
    if name == ALL:
        return "all environment variables"
    if name.startswith(HOST):
        return f"the {name.removeprefix(HOST)} of this machine"
    if name.startswith(UNOBSERVED):
        return f"what PATH offers, not observed because {name.removeprefix(UNOBSERVED)}"
    if name.startswith(IN_PATH):
        program = name.removeprefix(IN_PATH)
        return program if "/" in program else f"the first {program} in PATH"
    return f"the environment variable {name}"


def _of_request(name: str) -> str:
    field, _, dependency = name.partition(".")
    if field == "ad":
        return f"changes of its own dependency {dependency}"
    return "the modes of the call" if field == "modes" else f"--{field}"


_CHANGED_WHOLE = {
    "call:": "it reads all inputs, and others are given now",
    f"os:{ALL}": "it reads all environment variables, and some have changed",
}
"""What has changed, by the key of a read that stands for many values."""


def changed(key: str, then: str, now: str) -> str:
    """Return a recorded read that has another fingerprint now, in words."""
    space = key.partition(":")[0] if ":" in key else ""
    if space == "laid":
        return f"{subject_of_read(key)} was {then or 'nothing'}, is {now or 'nothing'}"
    if space == "all":
        return "it reads its whole env, and other keys are set now"
    if key in _CHANGED_WHOLE:
        return _CHANGED_WHOLE[key]
    if key.startswith((f"os:{HOST}", f"os:{IN_PATH}")):
        return f"{subject_of_read(key)} was {_none(then)}, is {_none(now)}"
    if is_keyed(then):
        return f"{subject_of_read(key)} has another value, a secret"
    return f"{subject_of_read(key)} was {shown_value(then)}, is {shown_value(now)}"


def _none(then: str) -> str:
    return "none" if then == MISSING else then


def shown_value(text: str) -> str:
    """Return a fingerprint as a message shows it."""
    if text == MISSING:
        return "not set"
    if text.startswith("\0"):
        return text[1:]
    return text if text.startswith("sha256:") else f'"{text}"'
