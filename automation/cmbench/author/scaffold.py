"""New scripts from templates, one per kind; what they write passes the linter and their own tests.

A template is a folder of ``cmbench/author/templates`` whose files hold ``@WORD@`` for what differs.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from cmbench.errors import Error, did_you_mean

KINDS: Mapping[str, str] = {
    "detect": "find a program of this machine",
    "install": "find a program, or install it as a Python package",
    "download": "one file from the network, verified",
    "dataset": "a data set from an archive",
    "model": "a model file",
    "app": "a program of its own, with inputs",
    "benchmark": "a measurement with a result file",
}
_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
_ALIAS = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9][a-z0-9.]*)+")
_ANY_ALIAS = re.compile(r"[A-Za-z0-9][\w.-]*")
_PLACEHOLDER = re.compile(r"@([A-Z0-9]+)@")


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """The options of a new script. ``tags``, ``name``, ``url`` and ``sha256`` may be empty.

    ``house``: the name is to be as in this repository.
    """

    alias: str
    kind: str
    tags: tuple[str, ...] = ()
    name: str = ""
    url: str = ""
    sha256: str = ""
    house: bool = True


def create(root: str, wish: ScaffoldRequest) -> list[str]:
    """Write the script into the repository at ``root``; the paths of its files.

    Raises ``Error`` for an unknown kind, a bad alias, or a script that is there already.
    """
    if wish.kind not in KINDS:
        raise Error(
            "bad-value",
            f'"{wish.kind}" is not a kind of script',
            hint=did_you_mean(wish.kind, KINDS) or f"choose one of: {', '.join(KINDS)}",
            context=[f"--kind={kind}: {meaning}" for kind, meaning in KINDS.items()],
        )
    if not (_ALIAS if wish.house else _ANY_ALIAS).fullmatch(wish.alias):
        raise Error(
            "bad-value",
            f'"{wish.alias}" is not a name for a script',
            hint="name it <verb>-<thing> in lower case: get-cmake, run-my-benchmark",
        )
    target = os.path.join(root, "script", wish.alias)
    if os.path.exists(target):
        raise Error("bad-value", f"{target} exists already", hint="choose another name")
    words = _words(wish)
    files = _files(wish.kind, words)
    for name, text in files.items():
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    return [os.path.join(target, name) for name in files]


def _words(wish: ScaffoldRequest) -> dict[str, str]:
    verb, _, thing = wish.alias.partition("-")
    thing = thing or verb
    tags = wish.tags or tuple(dict.fromkeys((verb, *thing.split("-"), wish.alias)))
    titles = {
        "detect": f"Find {thing} on this machine",
        "install": f"Find {thing}, or install it",
        "download": f"The file {thing}, verified",
        "dataset": f"The data set {thing}",
        "model": f"The model {thing}",
        "app": f"Run {thing}",
        "benchmark": f"Measure {thing}",
    }
    return {
        "ALIAS": wish.alias,
        "UID": new_uid(),
        "THING": thing,
        "KEY": re.sub(r"[^A-Z0-9]", "_", thing.upper()),
        "NAME": _quoted(wish.name or titles[wish.kind]),
        "TAGS": "\n".join(f"- {tag}" for tag in dict.fromkeys(tags)),
        "URL": wish.url or f"https://example.org/replace-this/{thing}.zip",
        "SHA256": _quoted(wish.sha256 or "0" * 64),
    }


def new_uid() -> str:
    """16 hex digits that YAML takes for text without quotes."""
    while True:
        uid = secrets.token_hex(8)
        if re.search("[a-df]", uid):
            return uid


def _quoted(text: str) -> str:
    """``text`` as a YAML value: in quotes where it would mean something else without."""
    plain = re.fullmatch(r"[A-Za-z][\w ,./()-]*", text) and not text.endswith(" ")
    return text if plain else "'" + text.replace("'", "''") + "'"


def _files(kind: str, words: Mapping[str, str]) -> dict[str, str]:
    """Name to text of every file of a template and of what all kinds share."""
    files: dict[str, str] = {}
    for folder in ("common", kind):
        root = os.path.join(_TEMPLATES, folder)
        for folder_path, _, names in os.walk(root):
            for name in sorted(names):
                path = os.path.join(folder_path, name)
                with open(path, encoding="utf-8") as stream:
                    text = stream.read()
                relative = os.path.relpath(path, root).removesuffix(".in")
                files[relative] = _PLACEHOLDER.sub(lambda match: words[match.group(1)], text)
    return files
