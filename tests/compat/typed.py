"""Runs a command line as it is typed: ``python typed.py ENGINE RECORD TOOL WORD...``.

``ENGINE`` is ``cm``, ``mlc`` or ``ours``, ``RECORD`` a file that gets a line of JSON with what came
back. It imports nothing of this project; our engine is asked in ``cm``'s words.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

KEPT = ("return", "error", "new_env", "new_state", "deps", "version")
SHORT = {"mlcr": ("run",), "mlcd": ("docker",), "mlct": ("test",), "mlce": ("experiment",)}
ABOUT = ("script", "cache")


def with_cmind(words: list[str], record: Any) -> int:
    from cmind.core import CM

    cm = CM()
    answer = cm.access(words, out="con")
    if cm.output == "json":
        from cmind import utils

        utils.dump_safe_json(answer)
    elif answer["return"] > 0 and cm.output in (None, "con"):
        cm.error(answer)
    record(answer)
    return int(answer["return"])


def with_mlc(tool: str, words: list[str], record: Any) -> int:
    import yaml

    # The same parser in C: each start of that engine reads every meta file anew.
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    from mlc import main as mlc

    given = mlc.get_action

    class Seen:
        def __init__(self, action: Any) -> None:
            self.action = action

        def __getattr__(self, name: str) -> Any:
            method = getattr(self.action, name)

            def called(*args: Any, **more: Any) -> Any:
                answer = method(*args, **more)
                record(answer)
                return answer

            return called if callable(method) else method

    if not {"-h", "--help"} & set(words):
        mlc.get_action = lambda *args: Seen(given(*args))
    sys.argv = [tool, *words]
    try:
        getattr(mlc, tool)() if tool != "mlc" else mlc.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except Exception as problem:
        mlc._report_error(problem)
        record({"return": 1, "error": str(problem)})
        return 1
    return 0


def in_words_of_cm(tool: str, words: list[str]) -> list[str]:
    """What a user of ``mlc`` types for ``cm``: tags by name, script first."""
    words = [*SHORT.get(tool, ()), *(("script",) if tool in SHORT else ()), *words]
    if words[1:2] and words[1] in ABOUT and words[2:] and _are_tags(words[2]):
        words[2] = f"--tags={words[2]}"
    return words


def _are_tags(word: str) -> bool:
    # ``alias,uid`` is a name.
    is_name = re.fullmatch(r"[^,]+,[0-9a-f]{16}", word)
    return not word.startswith(("-", "@")) and "," in word and " " not in word and not is_name


def main(engine: str, target: str, tool: str, words: list[str]) -> int:
    depth = int(os.environ.get("COMPAT_DEPTH", "0"))
    os.environ["COMPAT_DEPTH"] = str(depth + 1)
    answers: list[dict[str, Any]] = []
    try:
        status = ask(engine, tool, words, answers.append)
    except Exception as problem:
        import traceback

        traceback.print_exc()
        answers.append({"error": str(problem)})
        status = 1
    if not depth:
        keep(target, tool, words, status, answers)
    return status


def ask(engine: str, tool: str, words: list[str], record: Any) -> int:
    if engine == "mlc":
        return with_mlc(tool, words, record)
    if engine == "ours":
        # This checkout, wherever the Python at hand has our engine from.
        place = os.path.dirname(os.path.abspath(__file__))
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(place)), "automation"))
    if tool == "cmr":
        words = ["run", "script", *words]
    elif tool != "cm":
        words = in_words_of_cm(tool, words)
    return with_cmind(words, record)


def keep(
    target: str, tool: str, words: list[str], status: int, answers: list[dict[str, Any]]
) -> None:
    """Add what came back to the record."""
    answer = answers[-1] if answers else {}
    kept = {key: answer.get(key) for key in KEPT}
    found = answer.get("list")
    listed = None if found is None else [_place(item) for item in found]
    told = {"tool": tool, "words": words, "status": status, "list": listed, **kept}
    with open(target, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(told, default=str) + "\n")


def _place(item: Any) -> str:
    if isinstance(item, dict):
        return str(item.get("path") or item.get("alias") or item.get("uid") or "")
    return str(getattr(item, "path", item))


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    sys.stdout.flush()
    sys.exit(code)
