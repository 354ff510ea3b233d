"""Steps at once: the same result as one after another, faster; failures, locks, interruptions."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab import Lab, Result, command, start
from support import HANG_S, LONG_S, wait_for

EXAMPLES = int(os.environ.get("CMBENCH_EXAMPLES", "8"))
HOOK = """import time

def preprocess(i):
    env = i['env']
    time.sleep({pause})
    seen = ''.join(str(env.get('CM' + '_' + k, '')) for k in {reads!r})
    if {fails!r} and {fails!r} in ('always', seen):
        return {{'return': 7, 'error': 'cannot: ' + seen}}
    env['CM_' + {write!r}] = ({name!r} + '(' + seen + ')')[:60]
    i['state'].setdefault('seen', []).append(seen) if {state} else None
    return {{'return': 0}}
"""
NATIVE = """sleep {pause}
seen="{reads}"
[ "{fails}" != always ] || {{ echo "cannot: $seen"; exit 7; }}
echo "CM_{write}={name}($seen)" | cut -c 1-60 > tmp-run-env.out
echo "$seen" > made.txt
"""


@st.composite
def worlds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Scripts, each of which may depend on those before it; the last one is what is asked for."""
    count = draw(st.integers(3, 7))
    found = []
    for number in range(count):
        below = list(range(number))
        last = number == count - 1
        before = "ABCDEFG"[number - 1] if number else "A"
        found.append(
            {
                "native": draw(st.integers(0, 2)) == 0,
                "cache": not last and draw(st.integers(0, 5)) > 0,
                "pause": draw(st.sampled_from([0.0, 0.01, 0.04])),
                "reads": draw(
                    st.lists(st.sampled_from("ABCDEF" + before * 4), max_size=2, unique=True)
                ),
                "write": "ABCDEFG"[number],
                "fails": draw(st.sampled_from([""] * 8 + ["always", "s0()"])),
                "state": draw(st.integers(0, 7)) == 0,
                "exclusive": draw(st.sampled_from([[], [], [], [], [], ["tool"], ["machine"]])),
                "gives": draw(st.sampled_from([["own"]] * 6 + [["own", "CM_A"], ["+PATH", "own"]])),
                "deps": [
                    {
                        "tags": f"step,s{target}",
                        **draw(
                            st.sampled_from(
                                [
                                    {},
                                    {},
                                    {},
                                    {},
                                    {},
                                    {"enable_if_env": {"CM_A": ["yes", "s0()"]}},
                                    {"skip_if_env": {"CM_B": ["on"]}},
                                    {"continue_on_error": True},
                                    {"env": {"CM_C": "given"}},
                                ]
                            )
                        ),
                    }
                    for target in (
                        below if last else draw(st.sets(st.sampled_from(below or [0]), max_size=2))
                    )
                    if target in below
                ],
            }
        )
    return found


def build(lab: Lab, world: list[dict[str, Any]]) -> str:
    for number, step in enumerate(world):
        name = f"s{number}"
        words = {**step, "name": name}
        gives = [f"CM_{step['write']}" if key == "own" else key for key in step["gives"]]
        words["reads"] = (
            "".join(f"${{CM_{key}:-}}" for key in step["reads"])
            if step["native"]
            else tuple(step["reads"])
        )
        lab.script(
            name,
            tags=f"step,{name}",
            run=NATIVE.format(**words) if step["native"] else "",
            customize="" if step["native"] else HOOK.format(**words),
            cache=step["cache"],
            exclusive=step["exclusive"],
            deps=step["deps"],
            new_env_keys=gives,
            new_state_keys=["seen"] if step["state"] else [],
        )
    return f"step,s{len(world) - 1}"


def told(lab: Lab, result: Result) -> dict[str, Any]:
    """All that must not depend on how many steps ran at once."""
    runs = sorted((lab.home / "cmbench/runs").iterdir(), key=lambda run: run.stat().st_mtime)
    steps = json.loads((runs[-1] / "record.json").read_text())["steps"]
    keys = ("step", "chain", "status", "why", "version", "reads", "new_env", "error")
    answer = result.answer
    return {
        "answer": {k: answer.get(k) for k in ("return", "error", "code", "chain", "context")},
        "env": answer.get("new_env"),
        "state": answer.get("new_state"),
        "steps": [{key: step.get(key) for key in keys} for step in steps],
        "entries": sorted(
            (
                e.script,
                sorted(e.reads.items()),
                sorted(e.new_env.items()),
                sorted(os.listdir(e.path)),
            )
            for e in lab.store.entries()
        ),
        "staging": sorted(os.listdir(lab.store.place("staging"))),
        "payloads": len(os.listdir(lab.store.place("store"))) if lab.store.entries() else 0,
    }


@contextmanager
def inside(folder: str, path: str) -> Iterator[None]:
    """Steps that keep nothing work where the user is: that must be a place of their own.

    A step that measures reads all of ``path``, which nobody else may change meanwhile.
    """
    before, path_before = os.getcwd(), os.environ["PATH"]
    os.chdir(folder)
    os.environ["PATH"] = path
    try:
        yield
    finally:
        os.chdir(before)
        os.environ["PATH"] = path_before


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the programs that steps of these tests use."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("bash", "cut", "sh", "sleep"):
        folder.joinpath(name).symlink_to(str(shutil.which(name)))
    return str(folder)


@settings(
    max_examples=EXAMPLES,
    # The usual run has the same worlds every time; more of them are other ones.
    derandomize="CMBENCH_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(world=worlds(), given=st.sampled_from(["", "yes"]))
def test_a_parallel_run_equals_the_serial_one(
    programs: str, world: list[dict[str, Any]], given: str
) -> None:
    found = []
    for jobs in ("1", "4"):
        with tempfile.TemporaryDirectory() as folder, inside(folder, programs):
            lab = Lab(Path(folder))
            tags = build(lab, world)
            first = told(lab, lab.run(tags, jobs=jobs, env={"CM_A": given}))
            second = told(lab, lab.run(tags, jobs=jobs, env={"CM_A": "other"}))
            found.append([first, second])
    assert found[1] == found[0]


def native(lab: Lab, name: str, seconds: float = 0.5, more: str = "", **meta: Any) -> None:
    """``get,<name>``: a program that takes its time and leaves a trace of when it ran."""
    key = f"CM_{name.upper()}"
    text = f'echo {name} begins >> "{lab.home}/trace"\nsleep {seconds}\n{more}\n'
    text += f'echo {name} ends >> "{lab.home}/trace"\necho {key}={name} > tmp-run-env.out\n'
    lab.script(f"get-{name}", run=text, **{"cache": True, "new_env_keys": [key], **meta})


def trace(lab: Lab) -> list[str]:
    path = lab.home / "trace"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def app(lab: Lab, *names: str, **meta: Any) -> None:
    lab.script("app", deps=[{"tags": f"get,{n}"} for n in names], new_env_keys=["CM_*"], **meta)


def begins_first(lab: Lab, count: int) -> bool:
    """Whether the first ``count`` programs all began before any of them ended."""
    return all(line.endswith("begins") for line in trace(lab)[:count])


def test_independent_steps_run_at_once(lab: Lab) -> None:
    for name in "abc":
        native(lab, name)
    app(lab, "a", "b", "c")
    result = lab.run("app", jobs="3")
    assert result.env == {"CM_A": "a", "CM_B": "b", "CM_C": "c"}
    assert begins_first(lab, 3)
    assert [step["step"] for step in result.record["steps"]] == ["get-a", "get-b", "get-c", "app"]


def test_without_the_flag_one_runs_after_the_other(lab: Lab) -> None:
    for name in "ab":
        native(lab, name, 0.05)
    app(lab, "a", "b")
    lab.run("app")
    assert trace(lab) == ["a begins", "a ends", "b begins", "b ends"]


def test_no_more_than_were_allowed_work(lab: Lab) -> None:
    for name in "abcd":
        native(lab, name, 0.2)
    app(lab, *"abcd")
    lab.run("app", j2=True)
    working = most = 0
    for line in trace(lab):
        working += 1 if line.endswith("begins") else -1
        most = max(most, working)
    assert most == 2


def test_a_step_that_reads_what_another_sets_waits(lab: Lab) -> None:
    native(lab, "a", 0.2)
    native(lab, "b", 0.0, more='echo "b sees ${CM_A:-}" >> "$CM_TMP_RUN_DIR/../seen"')
    app(lab, "a", "b")
    lab.run("app", jobs="2")
    assert trace(lab) == ["a begins", "a ends", "b begins", "b ends"]


UNFORESEEN = """def preprocess(i):
    i['env']['CM_B'] = 'saw ' + str(i['env'].get('C' + 'M_A', 'nothing'))
    return {'return': 0}
"""


def test_a_read_that_nobody_could_foresee_is_set_right(lab: Lab) -> None:
    native(lab, "a", 0.4)
    lab.script("get-b", customize=UNFORESEEN, cache=True, new_env_keys=["CM_B"])
    app(lab, "a", "b")
    result = lab.run("app", jobs="2")
    assert result.env["CM_B"] == "saw a"
    assert [step["status"] for step in result.record["steps"]] == ["done", "done", "done"]
    reads = [entry.reads["CM_A"] for entry in lab.store.entries() if entry.script == "get-b"]
    assert reads == ["a"]


def test_what_was_made_before_a_second_try_is_reported_as_made(lab: Lab) -> None:
    native(lab, "a", 0.4)
    native(lab, "x", 0.05)
    deps = [{"tags": "get,x"}]
    lab.script("get-b", customize=UNFORESEEN, cache=True, new_env_keys=["CM_B"], deps=deps)
    app(lab, "a", "b")
    result = lab.run("app", jobs="2")
    assert result.env["CM_B"] == "saw a"
    found = [(step["step"], step["status"]) for step in result.record["steps"]]
    assert found == [(f"get-{name}", "done") for name in "axb"] + [("app", "done")]
    assert trace(lab).count("x begins") == 1


def test_a_failure_leaves_what_the_serial_run_leaves(lab: Lab) -> None:
    native(lab, "a", 0.3, more="exit 3")
    native(lab, "b", 0.0)
    native(lab, "c", 2 * HANG_S)
    app(lab, "a", "b", "c")
    started = time.monotonic()
    result = lab.run("app", jobs="3")
    assert time.monotonic() - started < HANG_S, "it waited for what it should end"
    assert "run.sh of get-a exited with status 3" in result.err
    assert lab.store.entries() == []
    assert os.listdir(lab.store.place("store")) == []


def test_of_two_failures_the_first_in_order_is_reported(lab: Lab) -> None:
    native(lab, "a", 0.4, more="exit 3")
    native(lab, "b", 0.0, more="exit 4")
    app(lab, "a", "b")
    assert "run.sh of get-a exited with status 3" in lab.run("app", jobs="2").err


def test_a_measuring_step_runs_alone(lab: Lab) -> None:
    for name in "ac":
        native(lab, name, 0.2)
    native(lab, "b", 0.2, exclusive=["machine"])
    app(lab, "a", "b", "c")
    lab.run("app", jobs="3")
    at = trace(lab).index("b begins")
    assert trace(lab)[at : at + 2] == ["b begins", "b ends"]
    assert at == 2


def test_a_named_lock_keeps_two_steps_apart(lab: Lab) -> None:
    for name in "ab":
        native(lab, name, 0.2, exclusive=["python"])
    app(lab, "a", "b")
    assert lab.run("app", jobs="2").answer["return"] == 0
    assert [line.split()[1] for line in trace(lab)] == ["begins", "ends"] * 2


def test_two_that_need_the_same_entry_do_not_both_make_it(lab: Lab) -> None:
    native(lab, "tool", 0.1)
    for name in "ab":
        native(lab, name, 0.1, deps=[{"tags": "get,tool"}])
    app(lab, "a", "b")
    result = lab.run("app", jobs="2")
    assert [s["status"] for s in result.record["steps"]] == [
        "done",
        "done",
        "cached",
        "done",
        "done",
    ]
    assert trace(lab).count("tool begins") == 1


def test_the_path_that_one_gives_is_seen_by_the_next(lab: Lab) -> None:
    bin_ = "mkdir bin; printf '#!/bin/sh\\necho works' > bin/thing; chmod +x bin/thing"
    lab.script(
        "get-a",
        run=f"sleep 0.3; {bin_}\n",
        customize="import os\ndef postprocess(i):\n    i['env']['+PATH'] = [os.getcwd() + '/bin']\n"
        "    return {'return': 0}\n",
        cache=True,
        new_env_keys=["+PATH"],
    )
    lab.script(
        "get-b", run="echo CM_B=$(thing) > tmp-run-env.out", cache=True, new_env_keys=["CM_B"]
    )
    app(lab, "a", "b")
    assert lab.run("app", jobs="2").env["CM_B"] == "works"


WAITS = f"""import pathlib
import subprocess

def preprocess(i):
    pathlib.Path(i['env']['CM_BEGUN']).touch()
    subprocess.run(['sleep', '{LONG_S}'])
    return {{'return': 0}}
"""


APART = WAITS.replace("['sleep'", "['timeout', '9000', 'sleep'")


@pytest.mark.parametrize("wanted", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hook", ["", WAITS, APART])
def test_an_interruption_ends_them_all(lab: Lab, wanted: signal.Signals, hook: str) -> None:
    native(lab, "a", 2 * HANG_S)
    native(lab, "b", 2 * HANG_S)
    begun = lab.home / "begun"
    lab.script(
        "get-c",
        customize=hook,
        cache=True,
        run="" if hook else f"sleep {LONG_S}",
        env={"CM_BEGUN": str(begun)},
    )
    app(lab, "a", "b", "c")
    process = start(lab, "app", jobs="3")
    # A hook that works lets no other step begin: on a busy host it may be the first.
    wait_for(lambda: len(trace(lab)) >= 2 or begun.exists())
    time.sleep(0.4)
    process.send_signal(wanted)
    out, err = process.communicate(timeout=HANG_S)
    assert "stopped by the user" in err, out + err
    assert process.returncode not in (0, None)
    assert not [
        pid
        for pid in os.listdir("/proc")
        if pid.isdigit() and b"CM_TMP_RUN_DIR=" + str(lab.home).encode() in environ(pid)
    ]
    assert lab.store.entries() == []
    lab.store.staging.sweep()
    assert os.listdir(lab.store.place("store")) == []


def environ(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("flags", [{"jobs": True}, {"jobs": "0"}, {"jobs": "many"}, {"j0": True}])
def test_a_number_is_asked_for(lab: Lab, flags: dict[str, Any]) -> None:
    lab.script("app")
    result = lab.run("app", **flags)
    assert result.answer["code"] == "bad-value"
    assert "--jobs=4" in result.err


def test_j_alone_still_asks_for_json(lab: Lab) -> None:
    lab.script("app", new_env_keys=["CM_X"], default_env={"CM_X": "1"})
    assert '"return": 0' in lab.run("app", j=True).out


class Step(SimpleNamespace):
    """What a view looks at of a step, which is itself and equals no other."""

    __hash__ = object.__hash__


def test_several_running_steps_in_one_view() -> None:
    pytest.importorskip("rich")
    from cmbench.api.events import Event, EventStep
    from cmbench.render.progress import LiveProgress

    view = LiveProgress(io.StringIO())
    top = EventStep("app", depth=0, number=1)
    below = [EventStep(f"get-{'long-' * 20}{n}", depth=1, number=n, caller=1) for n in (2, 3)]
    inner = EventStep("get-inner", depth=2, number=4, caller=2)
    for step in (top, *below, inner):
        view(Event("started", step=step))
    view(Event("progress", data={"label": "Building", "done": 1, "total": 4, "unit": "MB"}))
    view(Event("progress", data={"label": "Testing", "done": 1, "total": 2}))
    shown = [str(row) for row in view._picture().renderables]
    assert [line[12:].strip()[:9] for line in shown[:4]] == [
        "app",
        "get-long-",
        "get-inner",
        "get-long-",
    ]
    # Of several that make progress the newest one is shown.
    assert "50% Testing" in shown[4]
    assert len(shown) == 5
    assert max(map(len, shown)) < 80
    view(Event("left", step=inner))
    assert len(view._picture().renderables) == 3


def test_lines_of_parallel_steps_can_be_distinguished(lab: Lab) -> None:
    for name in "ab":
        native(lab, name, 0.1, more=f"echo hello from {name}")
    app(lab, "a", "b")
    result = lab.run("app", jobs="2", verbose=True)
    assert "[get,a] hello from a" in result.out
    assert "[get,b] hello from b" in result.out


def test_a_plain_run_loads_nothing_of_this(lab: Lab) -> None:
    lab.script("detect-it", host_facts=True, new_env_keys=["CM_IT"])
    lab.run("detect,it")
    python, *words = command(lab, "detect,it")
    words = [python, "-X", "importtime", *words]
    out = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in out.stderr.splitlines()}
    names = (
        *("run.workers", "run.forecast", "run.parallel", "run.prefetch"),
        *("plan.tree", "lib.download", "lib.download_spool"),
    )
    assert "cmbench.run.scheduler" in loaded
    assert not loaded & {f"cmbench.{name}" for name in names}
    assert "hashlib" not in loaded, "it takes longer than all else that is loaded"
