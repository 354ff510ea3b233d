"""A script under another name or in another repository: copied, or moved."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from typing import Any

from cmbench.author.scaffold import new_uid
from cmbench.errors import Error
from cmbench.format.meta import META_FILES


def relocate(
    source: str, root: str, name: str, move: bool = False, tags: tuple[str, ...] = ()
) -> str:
    """The script in the folder ``source`` as ``name`` in the repository at ``root``; its folder.

    A copy gets a uid of its own, and ``tags`` instead of its present ones if there are any.
    Raises ``bad-value`` for an invalid name or one that exists.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise Error("bad-value", f'"{name}" is not a name for a script', hint="such as get-cmake")
    target = os.path.join(root, "script", name)
    if os.path.lexists(target):
        raise Error("bad-value", f"{target} exists already", hint="choose another name")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    draft = os.path.join(os.path.dirname(target), f".{name}.new")
    try:
        shutil.copytree(source, draft, symlinks=True)
        _rename(draft, {"alias": name} if move else {"alias": name, "uid": new_uid()}, tags)
        os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if move:
        shutil.rmtree(source)
    return target


def _rename(folder: str, values: Mapping[str, str], tags: tuple[str, ...]) -> None:
    for name in META_FILES:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            is_json = text.lstrip().startswith("{")
            text = (_in_json if is_json else _in_yaml)(text, values, tags)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)


def _in_json(text: str, values: Mapping[str, str], tags: tuple[str, ...]) -> str:
    data = json.loads(text)
    changes: dict[str, Any] = {**values, **({"tags": list(tags)} if tags else {})}
    data.update({key: value for key, value in changes.items() if key in data})
    return json.dumps(data, indent=2) + "\n"


def _in_yaml(text: str, values: Mapping[str, str], tags: tuple[str, ...]) -> str:
    """Only these lines are written anew: comments and the order of all others stay."""
    for key, value in values.items():
        text = re.sub(rf"(?m)^{key}:.*$", f"{key}: {value}", text, count=1)
    if tags:
        lines = "".join(f"- {json.dumps(tag)}\n" for tag in tags)
        text = re.sub(r"(?m)^tags:.*\n(?:[ \-].*\n)*", lambda _: f"tags:\n{lines}", text, count=1)
    return text
