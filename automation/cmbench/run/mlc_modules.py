"""What ``customize.py`` files of MLC repositories import: packages ``mlc`` and ``utils``.

Only the functions that such files really call are here, in words of our own, with the arguments
and answers that their callers expect: a dictionary whose ``return`` is 0, or else an ``error``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from cmbench.errors import Error

Answer = dict[str, Any]


class Logger:
    """The methods of a logger; every line goes where a hook's own output goes."""

    def _write(self, level: str, text: object, words: tuple[object, ...]) -> None:
        line = str(text) % words if words else str(text)
        print(f"{level}: {line}" if level else line, file=sys.stderr)

    def debug(self, text: object, *words: object, **_: object) -> None:
        self._write("", text, words)

    def info(self, text: object, *words: object, **_: object) -> None:
        self._write("", text, words)

    def warning(self, text: object, *words: object, **_: object) -> None:
        self._write("warning", text, words)

    warn = warning

    def error(self, text: object, *words: object, **_: object) -> None:
        self._write("error", text, words)

    exception = critical = error

    def setLevel(self, level: object) -> None:  # noqa: N802
        """Do nothing: ``-v`` decides which lines are shown."""


class Actions:
    """``action_object`` and ``cache_action``: requests to the tool itself, sent through cmind."""

    def __init__(self, cmind: Any, logger: Logger) -> None:
        self._cmind = cmind
        self.logger = logger
        self.repos_path = getattr(cmind, "repos_path", "")
        self.parent = self

    def access(self, i: Mapping[str, Any]) -> Answer:
        """Do what ``i`` says, such as ``{"action": "run", "target": "script", ...}``."""
        request = dict(i)
        target = str(request.pop("target", "") or request.get("automation") or "script")
        request["automation"] = target.partition(",")[0]
        if "item" in request:
            request["artifact"] = request.pop("item")
        answer: Answer = self._cmind.access(request)
        return answer


def modules(actions: Actions) -> dict[str, ModuleType]:
    """Return the modules by the names under which they are imported."""
    mlc_modules = {}
    for name in ("mlc", "mlc.utils", "mlc.action", "utils"):
        mlc_modules[name] = ModuleType(name, "Offered to customize.py by cmbench.")
    for name in ("mlc.utils", "utils"):
        vars(mlc_modules[name]).update(_HELPERS, logger=actions.logger)
    vars(mlc_modules["mlc.action"]).update(access=actions.access)
    vars(mlc_modules["mlc"]).update(
        access=actions.access,
        utils=mlc_modules["mlc.utils"],
        action=mlc_modules["mlc.action"],
        __path__=[],
        __version__="1.3.8",
    )
    return mlc_modules


def is_true(value: object) -> bool:
    """Return whether ``value`` says yes."""
    return str(value).lower() in ("1", "true", "on", "yes")


def is_false(value: object) -> bool:
    """Return whether ``value`` says no; an empty text says neither."""
    return str(value).lower() in ("0", "false", "off", "no")


def load_txt(
    file_name: str,
    check_if_exists: bool = False,
    split: bool = False,
    match_text: str | None = None,
    fail_if_no_match: str | None = None,
    remove_after_read: bool = False,
    **_: object,
) -> Answer:
    """A text file: ``string``, with ``split`` also ``list`` of lines, ``match`` of a pattern."""
    try:
        text = Path(file_name).read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        return _failed(f"{file_name}: {problem.strerror}")
    match = re.search(match_text, text) if match_text else None
    if match is None and match_text and fail_if_no_match:
        return _failed(fail_if_no_match)
    if remove_after_read:
        os.unlink(file_name)
    answer: Answer = {"return": 0, "string": text}
    if split:
        answer["list"] = text.splitlines()
    if match:
        answer["match"] = match
    return answer


def load_json(file_name: str, encoding: str | None = None, **_: object) -> Answer:
    """Return a JSON file under ``meta``."""
    try:
        text = Path(file_name).read_text(encoding=encoding or "utf-8")
        return {"return": 0, "meta": json.loads(text)}
    except (OSError, ValueError) as problem:
        return _failed(f"{file_name}: {problem}")


def save_json(file_name: str, meta: Any, **_: object) -> Answer:
    """Write ``meta`` as a JSON file."""
    try:
        Path(file_name).write_text(json.dumps(meta, indent=2), encoding="utf-8")
    except (OSError, TypeError) as problem:
        return _failed(f"{file_name}: {problem}")
    return {"return": 0}


def run_system_cmd(i: Mapping[str, Any]) -> Answer:
    """Run the command line ``cmd`` of the script in the directory ``path``."""
    import subprocess

    command, path = str(i.get("cmd") or ""), str(i.get("path") or ".")
    if not command or not os.path.isdir(path):
        return _failed(f"cannot run {command or 'nothing'} in {path}")
    # The command is the script's own text, written for a shell.
    done = subprocess.run(
        ["bash", "-c", command], cwd=path, capture_output=True, text=True, check=False
    )
    answer: Answer = {"return": 0, "output": done.stdout.strip(), "error_output": done.stderr}
    if done.returncode:
        return {**answer, **_failed(f"{command}: exit status {done.returncode}")}
    return answer


def merge_dicts(params: Mapping[str, Any], in_place: bool = True) -> Answer:
    """``dict2`` merged into ``dict1``; with ``append_lists`` lists grow by new items."""
    merged = params["dict1"] if in_place else dict(params["dict1"])
    for key, new in params["dict2"].items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            merged[key] = merge_dicts({**params, "dict1": old, "dict2": new}, in_place)["merged"]
        elif isinstance(old, list) and isinstance(new, list) and params.get("append_lists"):
            unique = params.get("append_unique")
            merged[key] = old + [item for item in new if not (unique and item in old)]
        else:
            merged[key] = new
    return {"return": 0, "merged": merged, "dict1": merged}


def compare_versions(i: Mapping[str, Any]) -> Answer:
    """``comparison`` of ``version1`` with ``version2``: -1, 0 or 1."""
    from cmbench.lib import versions

    return {"return": 0, "comparison": versions.compare(str(i["version1"]), str(i["version2"]))}


def download_file(i: Mapping[str, Any]) -> Answer:
    """Get ``url`` into ``filename`` of the directory ``path`` (the current one)."""
    from cmbench.lib.download import download

    url = str(i["url"])
    name = str(i.get("filename") or "") or os.path.basename(url.partition("?")[0])
    target = Path(i.get("path") or os.getcwd()) / name
    try:
        done = download(url, target)
    except Error as error:
        return _failed(error.message)
    return {"return": 0, "filename": name, "path": str(done.path), "size": done.size}


def unzip_file(i: Mapping[str, Any]) -> Answer:
    """Unpack ``filename`` into the directory ``path`` (the current one)."""
    from cmbench.lib.archives import extract

    try:
        extract(
            Path(i["filename"]),
            Path(i.get("path") or os.getcwd()),
            strip_folder=bool(i.get("strip_folders")),
        )
    except Error as error:
        return _failed(error.message)
    return {"return": 0}


def _failed(error: str) -> Answer:
    return {"return": 1, "error": error}


_HELPERS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        is_true,
        is_false,
        load_txt,
        load_json,
        save_json,
        run_system_cmd,
        merge_dicts,
        compare_versions,
        download_file,
        unzip_file,
    )
}
