"""What a sweep costs: planning a thousand points, CPU for each, and a point beside a lone run.

    python benchmarks/sweep.py --points 1000

The points are of a script that does nothing; CPU counts everything that the sweep has started.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

META = {
    "alias": "do-nothing",
    "uid": "0123456789abcdef",
    "automation_alias": "script",
    "automation_uid": "5b4e0237da074764",
    "tags": ["do", "nothing"],
    "input_mapping": {"x": "CM_X", "y": "CM_Y", "seconds": "CM_SECONDS"},
    "input_description": {name: {"desc": name} for name in ("x", "y", "seconds")},
    "new_env_keys": ["CM_RATE"],
}
CODE = """
import time
def preprocess(i):
    count, end = 0, time.thread_time() + float(i["env"].get("CM_SECONDS") or 0)
    while time.thread_time() < end:
        count += 1
    i["env"]["CM_RATE"] = str(count)
    return {"return": 0}
"""


def world(folder: Path, sweep: str) -> dict[str, str]:
    """A CM home with the script and a sweep; the environment of ``cm`` in it."""
    script = folder / "repo" / "script" / "do-nothing"
    local = folder / "home" / "repos" / "local"
    for path in (script, local):
        path.mkdir(parents=True, exist_ok=True)
    (script / "meta.yaml").write_text(json.dumps(META), encoding="utf-8")
    (script / "customize.py").write_text(CODE, encoding="utf-8")
    (folder / "repo" / "cmr.yaml").write_text("alias: nothing\nuid: 1111111111111a11\n")
    (local / "cmr.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n")
    (folder / "home" / "repos.json").write_text(json.dumps([str(ROOT), str(folder / "repo")]))
    (folder / "sweep.yaml").write_text(sweep, encoding="utf-8")
    home = str(folder / "home")
    return {**os.environ, "CM_REPOS": home, "CM_CORE_SKIP_INTERNAL_REPOS": "yes"}


def cm(folder: Path, env: dict[str, str], *words: str) -> tuple[float, float, str]:
    """Run ``cm``: seconds, CPU seconds of it and all below it, its output."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("cm")), *words],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu, done.stdout


def costs(points: int) -> dict[str, float]:
    """Planning and measuring ``points`` that do nothing."""
    side = round(points**0.5)
    axes = f"  x: {{from: 1, to: {points // side}, step: 1}}\n  y: {{from: 1, to: {side}, step: 1}}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = world(folder, f"request: {{tags: 'do,nothing'}}\naxes:\n{axes}\n")
        cm(folder, env, "run", "script", "--tags=do,nothing", "--quiet")
        plan_s, plan_cpu, _ = cm(folder, env, "plan", "experiment", "--sweep=sweep.yaml")
        run_s, cpu, _ = cm(folder, env, "run", "experiment", "--sweep=sweep.yaml", "--quiet")
    many = side * (points // side)
    return {
        "points": many,
        "plan_seconds": plan_s,
        "plan_cpu_seconds": plan_cpu,
        "point_cpu_ms": cpu / many * 1000,
        "point_ms": run_s / many * 1000,
    }


def ratio(times: int, seconds: float) -> float:
    """How fast a point in a sweep is beside the same run alone: medians, in turns."""
    alone: list[float] = []
    swept: list[float] = []
    values = ", ".join(map(str, range(times)))
    sweep = f"request: {{tags: 'do,nothing', seconds: {seconds}}}\naxes: {{x: [{values}]}}\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = world(folder, sweep + "record: {rate: env.CM_RATE}\n")
        for number in range(times):
            words = ("--tags=do,nothing", f"--seconds={seconds}", "--out=json")
            told = cm(folder, env, "run", "script", *words)[2]
            alone.append(float(json.loads(told)["env"]["CM_RATE"]))
            text = (folder / "sweep.yaml").read_text(encoding="utf-8")
            (folder / "one.yaml").write_text(text.replace(f"[{values}]", f"[{number}]"))
            cm(folder, env, "run", "experiment", "--sweep=one.yaml", "--quiet")
            told = cm(folder, env, "show", "experiment", "one", "--json")[2]
            swept.append(json.loads(told)["points"][0]["figures"]["rate"])
    return float(statistics.median(swept) / statistics.median(alone))


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=1000, help="of the null step")
    parser.add_argument("--times", type=int, default=9, help="runs of each kind for the ratio")
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU that each of them takes")
    given = parser.parse_args()
    found = costs(given.points)
    if given.times:
        found["in_sweep_to_alone"] = ratio(given.times, given.seconds)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
