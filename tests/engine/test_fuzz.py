"""Whatever stands in a meta.yaml, in inputs or in tags: one clear error or a result, no traceback.

``CMBENCH_FUZZ=5000`` raises the count of each test, ``CMBENCH_SEED`` chooses other cases. A case is
made from the seed and its number alone, so the number in a failure's message is enough to see it
again.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cmbench.format.meta import DEPENDENCY_KEYS, SCRIPT_KEYS, VARIATION_KEYS
from lab import Lab, Result

SEED = int(os.environ.get("CMBENCH_SEED", "20261121"))
CASES = int(os.environ.get("CMBENCH_FUZZ", "100"))

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3.5, 10**30, float("nan"), "", " ", "x", "yes", "no", "0", "_a"),
    *("a,b", "get,tool", "<<<X>>>", "<<<", "<<<A>>><<<B>>>", "-", "_", ",", ",,", "#", "_x.#"),
    *("\x00", "\n", "\t", "é", "\u202e", "😀", "a" * 3000, "../../..", "/", "~", "$(id)", "`id`"),
    *(
        "; exit 7",
        "%s",
        "{}",
        "[",
        "'",
        '"',
        "\\",
        "!!python/object:os.system",
        "*",
        "1.2.3",
        "1e9",
    ),
    *([], {}, [[]], [None], [{}], {"": ""}, {"a": None}, {1: 2}, [1, "a", None], {"a": {"b": []}}),
    *({"tags": None}, [{"tags": 3}], [{"tags": "get,tool"}], {"a": {"env": 3}}, {"a": ["b"]}),
)
"""Values that no author means."""

META: dict[str, Any] = {
    "alias": "get-fuzzed",
    "uid": "0123456789abcdef",
    "automation_alias": "script",
    "automation_uid": "5b4e0237da074764",
    "name": "Fuzzed",
    "tags": ["get", "fuzzed"],
    "cache": True,
    "default_env": {"CM_LEVEL": "1"},
    "env": {"CM_FUZZED": "<<<CM_LEVEL>>>"},
    "input_mapping": {"level": "CM_LEVEL"},
    "input_description": {"level": {"desc": "How much", "type": "int", "default": "1"}},
    "new_env_keys": ["CM_FUZZED"],
    "deps": [
        {"tags": "get,tool", "names": ["tool"], "enable_if_env": {"CM_LEVEL": ["1", "2"]}},
        {"tags": "get,other,_big", "version_min": "1.0", "env": {"CM_X": "1"}},
    ],
    "prehook_deps": [{"tags": "get,tool", "skip_if_env": {"CM_LEVEL": ["1"]}}],
    "versions": {"1.0": {"env": {"CM_V": "1"}}},
    "default_version": "1.0",
    "variations": {
        "fast": {"group": "kind", "default": True, "env": {"CM_KIND": "fast"}},
        "slow": {"group": "kind", "base": ["extra"], "adr": {"tool": {"tags": "_big"}}},
        "extra": {"deps": [{"tags": "get,tool"}]},
        "size.#": {"env": {"CM_SIZE": "#"}},
    },
}
KEYS = sorted({*SCRIPT_KEYS, *VARIATION_KEYS, *DEPENDENCY_KEYS})
TAGS = ("get,fuzzed", "get,fuzzed,_slow", "get,fuzzed,_size.3,_extra", "get,fuzzed,-_fast")


@pytest.fixture
def tools(lab: Lab) -> Lab:
    lab.script("get-tool", variations={"big": {}}, env={"CM_TOOL": "1"}, new_env_keys=["CM_TOOL"])
    lab.script("get-other", cache=True, variations={"big": {}, "small.#": {}})
    (lab.repo / "script/get-fuzzed").mkdir()
    write(lab, yaml.safe_dump(META, sort_keys=False).encode(), 0)
    return lab


def assert_clear(result: Result, case: str) -> None:
    """A result, or one error that a user can do something with, and never our own fault."""
    answer = result.answer
    shown = f"{case}\n{result.err[-3000:]}"
    assert "Traceback" not in result.err + result.out, shown
    if not answer["return"]:
        return
    assert answer["code"] != "internal", shown
    assert answer["return"] in (1, 2, 4, 16), shown
    assert answer["error"].strip(), shown
    assert sum(line.startswith("error [") for line in result.err.splitlines()) == 1, shown


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything below ``value``."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [p for key, item in items for p in ((*path, key), *places(item, (*path, key)))]


def spoiled(draw: random.Random) -> Any:
    """The meta with one to three places changed, removed, renamed or added."""
    meta: Any = copy.deepcopy(META)
    for _ in range(draw.randint(1, 3)):
        known = places(meta)
        *above, last = draw.choice(known) if known else ((),)
        inner = meta
        for key in above:
            inner = inner[key]
        odd = copy.deepcopy(draw.choice(ODD))
        kind = draw.randrange(4)
        if kind == 0:
            del inner[last]
        elif kind == 1 and isinstance(inner, dict):
            inner[draw.choice(KEYS)] = odd
        elif kind == 2 and isinstance(inner, dict):
            inner[odd if isinstance(odd, str | int | float) else "odd"] = inner.pop(last)
        else:
            inner[last] = odd
    return meta


def broken_text(draw: random.Random, text: str) -> bytes:
    """The text of a meta.yaml, cut, with bytes changed, or with a piece of it said twice."""
    data = bytearray(text.encode())
    kind = draw.randrange(4)
    at = draw.randrange(len(data))
    if kind == 0:
        return bytes(data[:at])
    if kind == 1:
        for _ in range(draw.randint(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        return bytes(data)
    if kind == 2:
        piece = data[at : at + draw.randint(1, 60)]
        place = draw.randrange(len(data))
        return bytes(data[:place] + piece + data[place:])
    marks = (
        b"\t",
        b"&a *a",
        b"{",
        b"]",
        b"!!set",
        b"? ",
        b"---\n",
        b"<<: *x\n",
        b"\xff",
        b"- " * 99,
    )
    return bytes(data[:at] + draw.choice(marks) + data[at:])


def write(lab: Lab, data: bytes, number: int) -> None:
    path = lab.repo / "script/get-fuzzed/meta.yaml"
    path.write_bytes(data)
    os.utime(path, (1_700_100_000 + number, 1_700_100_000 + number))


def each(what: str, test: Callable[[random.Random, str], None]) -> None:
    """Run all cases, then fail with the first of those that went wrong."""
    cases = (f"seed {SEED}, {what} {number}" for number in range(1, CASES + 1))
    wrong = [fault for case in cases if (fault := fault_of(test, case))]
    print(f"seed {SEED}: {CASES} cases of {what}, {len(wrong)} wrong")
    assert not wrong, "\n\n".join([f"{len(wrong)} of {CASES} cases", *wrong[:5]])


def fault_of(test: Callable[[random.Random, str], None], case: str) -> str:
    """What went wrong in one case; empty when all is well."""
    try:
        test(random.Random(case), case)
    except AssertionError as problem:
        return str(problem).partition("\nassert ")[0]
    return ""


def used(lab: Lab, draw: random.Random, case: str) -> None:
    """What a user does with a script: looks, asks, plans, runs."""
    own = bool(draw.randrange(2))
    tags = draw.choice(TAGS)
    for verb in draw.sample(["run", "plan", "search", "show", "lint", "run"], 2):
        flags = {"path": str(lab.repo)} if verb == "lint" else {"tags": tags}
        assert_clear(lab.call(verb, own=own, **flags), f"{case}: {verb} {tags}")


def test_metas_of_odd_values(tools: Lab) -> None:
    numbers = iter(range(1, 10**9))

    def test(draw: random.Random, case: str) -> None:
        text = yaml.safe_dump(spoiled(draw), sort_keys=False, allow_unicode=True)
        write(tools, text.encode("utf-8", "replace"), next(numbers))
        used(tools, draw, case)

    each("meta", test)


def test_metas_of_broken_text(tools: Lab) -> None:
    text = yaml.safe_dump(META, sort_keys=False)
    numbers = iter(range(1, 10**9))

    def test(draw: random.Random, case: str) -> None:
        write(tools, broken_text(draw, text), next(numbers))
        used(tools, draw, case)

    each("text", test)


def test_odd_inputs(tools: Lab) -> None:
    names = (
        *("level", "version", "version_min", "name", "path", "env", "adr", "ad", "const", "state"),
        *("j", "extra_cache_tags", "out", "new", "renew", "quiet", "offline", "json", "explain"),
        *("lock", "dot", "v", "f", "skip_cache", "force_cache", "levle", "", "env.X", "adr.tool"),
    )

    def test(draw: random.Random, case: str) -> None:
        flags = {draw.choice(names): draw.choice(ODD) for _ in range(draw.randint(1, 3))}
        verb = draw.choice(("run", "plan", "show"))
        result = tools.call(verb, **{"tags": draw.choice(TAGS), **flags})
        if "out" not in flags:
            assert_clear(result, f"{case}: {verb} {flags}")
        assert result.answer.get("code") != "internal", f"{case}: {verb} {flags}: {result.answer}"

    each("input", test)


def test_odd_tags(tools: Lab) -> None:
    words = ("get", "fuzzed", "tool", "_fast", "_slow", "_size.3", "_size.", "-get", "-_fast", "--")
    texts = [text for text in ODD if isinstance(text, str)]

    def test(draw: random.Random, case: str) -> None:
        parts = [draw.choice(words) for _ in range(draw.randint(0, 4))]
        parts += [draw.choice(texts) for _ in range(draw.randint(0, 2))]
        draw.shuffle(parts)
        tags: Any = draw.choice((",".join(parts), ",".join(parts), draw.choice(ODD)))
        thing = draw.choice(("script", "script", "cache"))
        verb = draw.choice(
            ("run", "plan", "search", "show") if thing == "script" else ("show", "why")
        )
        assert_clear(tools.call(verb, thing, tags=tags), f"{case}: {verb} {thing} {tags!r}")

    each("tags", test)
