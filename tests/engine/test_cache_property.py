"""Whatever the scripts and the calls: a filled cache changes no result."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab import Lab

KEYS = ["CM_A", "CM_B", "CM_C", "CM_D"]
key = st.sampled_from(KEYS)
value = st.sampled_from(["1", "2", "<<<CM_A>>>", "<<<CM_D>>>x"])
plain = st.sampled_from(["1", "2"])
some = st.dictionaries(key, value, max_size=2)

BODY = """
import json, os
READS, WRITES = {reads!r}, {writes!r}
def preprocess(i):
    env = i['env']
    seen = [str(env.get(key)) for key in READS]
    for key in WRITES:
        env[key] = env.get(key, '') + '.'
    env['CM_OUT_{number}'] = ' '.join(seen)
    return {{'return': 0}}
"""


@st.composite
def scripts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Four scripts, each of which may depend on those before it."""
    found = []
    for number in range(4):
        deps = [
            {
                "tags": f"step,n{draw(st.integers(0, number - 1))}",
                "names": [draw(st.sampled_from(["x", "y"]))],
                **draw(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "env": some,
                            "enable_if_env": st.dictionaries(
                                key, st.lists(plain, min_size=1), max_size=1
                            ),
                            "given": value,
                            "dynamic": st.booleans(),
                        },
                    )
                ),
            }
            for _ in range(draw(st.integers(0, 2)))
            if number
        ]
        exported = draw(st.lists(key | st.just("CM_*"), max_size=2))
        found.append(
            {
                "alias": f"step-{number}",
                "tags": f"step,n{number}",
                "cache": draw(st.booleans()),
                "default_env": draw(some),
                "env": draw(some),
                "input_mapping": {"given": draw(key)},
                "new_env_keys": [f"CM_OUT_{number}", *exported],
                draw(st.sampled_from(["deps", "prehook_deps", "post_deps"])): deps,
                "adr": draw(
                    st.fixed_dictionaries(
                        {}, optional={"x": st.fixed_dictionaries({"given": plain})}
                    )
                ),
                "customize": BODY.format(
                    number=number,
                    reads=draw(st.lists(key, max_size=2)),
                    writes=draw(st.lists(key, max_size=1)),
                ),
            }
        )
    return found


calls = st.lists(
    st.fixed_dictionaries(
        {"env": st.dictionaries(key, plain, max_size=2)},
        optional={
            "given": plain,
            "adr": st.fixed_dictionaries({"y": st.fixed_dictionaries({"given": plain})}),
        },
    ),
    min_size=2,
    max_size=5,
)


def outcome(lab: Lab, call: dict[str, Any]) -> Any:
    answer = lab.run("step,n3", out="json", **json.loads(json.dumps(call))).answer
    return answer.get("new_env", answer.get("code"))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts(), calls)
def test_a_cache_never_changes_a_result(found: list[dict[str, Any]], asked: list[Any]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        lab = Lab(root)
        for script in found:
            lab.script(**script)
        filled = lab.home
        for number, call in enumerate(asked):
            lab.home = filled
            with_cache = outcome(lab, call)
            lab.home = root / f"empty{number}"
            lab.home.mkdir()
            assert with_cache == outcome(lab, call), (number, call)
    finally:
        shutil.rmtree(root)
