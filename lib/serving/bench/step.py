"""A step that runs a benchmark program: its inputs as arguments, and the answer read back.

Arguments go through a file that only this user may read and that ``measure.sh`` removes: a header
may be a secret, and the arguments of a process are seen by all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any

from common.problems import raise_failure

from .option_table import BenchOption

YES = ("yes", "true", "on", "1")


def arguments(
    options: Sequence[BenchOption],
    env: Mapping[str, Any],
    prefix: str,
    files: Mapping[str, str],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the arguments for the inputs in ``env``, whose keys are ``prefix`` and a name.

    ``defaults`` are values by name for options without an input. ``files`` are options that may
    name a file of the user's folder, with the words that are none, separated by blanks.
    """
    for option in options:
        value = env.get(f"{prefix}{option.name.upper()}") or defaults.get(option.name)
        if value in (None, "", []):
            continue
        if option.takes == "yes":
            if str(value).strip().lower() in YES:
                yield f"--{option.name}"
            continue
        for text in map(str, value if isinstance(value, list) else [value]):
            is_path = option.name in files and text not in files[option.name].split()
            path = os.path.abspath(os.path.expanduser(text)) if is_path else text
            yield f"--{option.name}={path}"


def hand_over(
    env: MutableMapping[str, Any], prefix: str, words: Sequence[str], read: Callable[..., Any]
) -> None:
    """Write ``words`` for the program; raise Problem for what ``read`` would not understand."""
    read(words)
    path = os.path.join(env["CM_TMP_RUN_DIR"], "arguments")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("".join(f"{word}\0" for word in words))
    env[f"{prefix}ARGUMENTS"] = path
    env[f"{prefix}ANSWER"] = os.path.join(env["CM_TMP_RUN_DIR"], "answer.json")


def take_answer(env: MutableMapping[str, Any], prefix: str, names: Sequence[str]) -> None:
    """Export the figures of ``names``; raise Problem where the program has failed."""
    with open(env[f"{prefix}ANSWER"], encoding="utf-8") as file:
        answer = json.load(file)
    raise_failure(answer)
    for name in names:
        if answer.get(name) is not None:
            env[f"{prefix}RESULT_{name.upper()}"] = f"{answer[name]:.6g}"
