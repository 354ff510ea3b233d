"""What the engine costs where there is much of everything: scripts, steps, entries of the cache.

Whole processes, as a user would start them, in temporary homes with 3,000 and 30,000 generated
scripts: the run of an empty script that first has to make the index, a look-up by tags with the
index there, a plan of a tree of 1,000 steps (190 scripts, 90 of them with 10 variations each), one
of 1,000 scripts, and a run of 1,000 steps that the cache holds. With --cm4mlops and --mlc the other
engines of the format do the same work in the same run, turn by turn; they have no plan, so their
figure beside it is a run of the same tree with --fake_run, which resolves it and starts nothing.
CPU seconds count, children included: whole, less those of the engine's own `version`, and less
those of the same command for a single step, which tells what the thousand steps cost. A job of
another engine is stopped after --peer-limit seconds of CPU, and counts as more than that.

A third home has a cache of 100,000 entries, written as files: what is asked of it by name, tags or
as a whole, and the first question, which makes the list of them all.

    python benchmarks/engine_scale.py
    python benchmarks/engine_scale.py --cm4mlops ~/cm4mlops --cm4mlops-cm ~/cm/bin/cm \
        --mlc ~/mlc/bin/mlc --json out.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine_overhead import (
    ROOT,
    VERSION,
    Engine,
    add_engine_options,
    cm_home,
    copy_of,
    machine,
    mlc_home,
    tags_of,
    write_identity,
    write_script,
)

SMALL, LARGE = 3_000, 30_000
ALIKE, UNLIKE = "alike", "unlike"
"""Two trees of 1 + 9 + 90 + 900 = 1,000 steps: few scripts with variations, or all different."""
CACHED, KEYS = 1_000, 100
"""Steps that the cache holds, and env keys that they set among them."""
NEEDLE = "scale,needle,filler-1"

COLD, WARM, RUN = "index, cold", "find, warm", "1,000 cached"
PLAN, PLAN_ALL = "plan of 1,000", "... all unlike"
PLAN_ONE, RUN_ONE = "plan of 1", "run of 1"
ONE = {PLAN: PLAN_ONE, PLAN_ALL: PLAN_ONE, RUN: RUN_ONE}

ENTRIES = 100_000
FIRST, ENTRY_SECONDS = "first question", 2.0
"""At most so many CPU seconds above start for each question about so many, but the first."""
ENTRY_JOBS = {
    FIRST: "find cache --tags=scale,none",
    "find, all": "find cache",
    "find, by tags": "find cache --tags=scale,kept,n-50000",
    "find, by id": "show cache 000000000000c350",
    "why": "why cache --tags=scale,kept,n-50000",
    "verify, one": "verify cache --tags=scale,kept,n-50000",
    "rm, one": "rm cache --tags=scale,kept,n-77 -f",
    "gc": "gc cache",
    "gc --yes": "gc cache --max-size=10GB --yes",
    "run, a hit": "run script --tags=scale,kept --quiet",
    "run, by name": "run script --tags=scale,kept --name=mine --quiet",
    "plan": "plan script --tags=scale,kept",
}

# CPU seconds of the look-up above the start of the command, and of the others above the same
# command for one step, in the home with 3,000 scripts; see --check. A plan whose steps are all of
# different scripts has no target: it reads every one of them.
TARGETS = {WARM: 0.05, PLAN: 0.2, RUN: 0.5}


@dataclass(frozen=True, slots=True)
class World:
    """One engine in one home: how many scripts it knows, and what its cold look-up misses."""

    scripts: int
    engine: Engine
    index: tuple[Path, ...]
    repeat: int

    def cpu_above(self, job: str, base: str = VERSION) -> float | None:
        """Median CPU seconds of a job less those of another.

        ``None`` where one was not run, or the other was stopped at its limit.
        """
        cost, start = self.engine.median(job), self.engine.median(base)
        if cost is None or start is None or not start.whole:
            return None
        return cost.cpu - start.cpu


FAST_YAML = """
import runpy, sys, yaml
yaml.SafeLoader, yaml.FullLoader = yaml.CSafeLoader, yaml.CFullLoader
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a command whose index of tens of thousands of scripts is not what is to be measured."""


# ---------------------------------------------------------------- what they run


def write_world(folder: Path, dialect: str, known: int, wanted: int, work: bool) -> None:
    """Write a repository that brings ``known`` scripts to ``wanted``, with the work if asked."""
    write_identity(folder, dialect, "scale")
    write_script(folder, dialect, "scale-empty", {"cache": False})
    written = write_work(folder, dialect) if work else 1
    for number in range(wanted - known - written):
        write_script(folder, dialect, f"scale-filler-{number}", filler(dialect, number))


def write_work(folder: Path, dialect: str) -> int:
    """The tree to plan and the steps to find in the cache; returns how many scripts that are."""
    trees = write_tree(folder, dialect, ALIKE) + write_tree(folder, dialect, UNLIKE)
    for number in range(CACHED):
        key = f"{dialect}_SCALE_{number % KEYS}"
        meta = {"cache": True, "env": {key: "yes"}, "new_env_keys": [key]}
        write_script(folder, dialect, f"scale-cached-{number}", meta)
    deps = [{"tags": tags_of(f"scale-cached-{number}")} for number in range(CACHED)]
    write_script(folder, dialect, "scale-steps", {"cache": False, "deps": deps})
    return trees + CACHED + 2


def write_tree(folder: Path, dialect: str, kind: str) -> int:
    """A tree of 1,000 steps; returns how many scripts that took."""
    scripts = dict(tree(kind))
    for number, (alias, deps) in enumerate(scripts.items()):
        key = f"{dialect}_SCALE_{kind.upper()}_{number % KEYS}"
        meta = {
            "cache": not deps,
            "default_env": {key: "yes"},
            "new_env_keys": [key],
            "deps": [{"tags": tags, "enable_if_env": {key: ["yes"]}} for tags in deps],
            "variations": {"size.#": {"env": {f"{key}_SIZE": "#"}}},
        }
        write_script(folder, dialect, alias, meta)
    return len(scripts)


def tree(kind: str) -> Iterator[tuple[str, list[str]]]:
    """The scripts of a tree with the tags of what each depends on.

    The 900 leaves are as many scripts where ``kind`` is ``unlike``, else 90 scripts, each of them
    met ten times with other variations.
    """
    branches = ["", *map(str, range(9)), *(f"{n:02}" for n in range(90))]
    for path in branches:
        below = [f"{path}{number}" for number in range(10 if path else 9)]
        deps = [f"scale-{kind}-n{child}" for child in below]
        tags = [tags_of(alias) for alias in deps]
        if len(path) == 2 and kind != UNLIKE:
            deps = [f"scale-{kind}-leaf-l{(int(path) + 9 * n) % 90}" for n in range(10)]
            tags = [f"{tags_of(alias)},_size.{path}" for alias in deps]
        yield f"scale-{kind}-n{path}" if path else f"scale-{kind}-root", tags
        if len(path) == 2:
            yield from ((alias, []) for alias in deps)


def filler(dialect: str, number: int) -> Mapping[str, Any]:
    """A script of common size that nobody runs: 50 lines of YAML."""
    draw = random.Random(number)
    key = f"{dialect}_SCALE_FILLER_{number}"
    names = [f"v{draw.randrange(100)}{letter}" for letter in "abcd"]
    return {
        "tags": ["scale", "needle", f"filler-{number}", f"kind-{draw.randrange(50)}"],
        "name": f"Generated script number {number}",
        "category": "Generated scripts",
        "cache": bool(draw.randrange(2)),
        "default_env": {f"{key}_LEVEL": "1", f"{key}_MODE": "quick"},
        "input_mapping": {"level": f"{key}_LEVEL", "mode": f"{key}_MODE"},
        "input_description": {
            "level": {"desc": "How much of it", "type": "int", "default": "1"},
            "mode": {"desc": "In what way", "choices": ["quick", "full"]},
        },
        "new_env_keys": [f"{key}_*"],
        "deps": [
            {"tags": "detect,os"},
            {"tags": "get,python3", "names": ["python", "python3"]},
            {"tags": "get,compiler", "enable_if_env": {f"{key}_MODE": ["full"]}},
        ],
        "variations": {
            name: {"group": "kind", "env": {f"{key}_KIND": name}, "default": name == names[0]}
            for name in dict.fromkeys(names)
        },
    }


# ---------------------------------------------------------------- the engines


def jobs_of(command: str, version: str, own: bool, work: bool) -> dict[str, list[str]]:
    """Job name to command line; ``own`` says whether it has plans, ``work`` asks for the trees."""

    def run(alias: str) -> list[str]:
        return [command, "run", "script", f"--tags={tags_of(alias)}", "--quiet"]

    def plan(alias: str) -> list[str]:
        tags = f"--tags={tags_of(alias)}"
        return [command, "plan", "script", tags] if own else [*run(alias), "--fake_run"]

    jobs = {VERSION: [command, version], COLD: run("scale-empty")}
    jobs[WARM] = [command, "find", "script", f"--tags={NEEDLE}"]
    if work:
        jobs[RUN_ONE], jobs[PLAN_ONE] = run("scale-empty"), plan("scale-empty")
        jobs[PLAN] = plan(f"scale-{ALIKE}-root")
        jobs[PLAN_ALL] = plan(f"scale-{UNLIKE}-root")
        jobs[RUN] = run("scale-steps")
    return jobs


def cm_world(
    name: str, folder: Path, cm: str, repository: Path, scripts: int, repeat: int
) -> World:
    """``cm`` with the engine that ``repository`` brings."""
    own = repository == ROOT
    known = sum(1 for _ in repository.glob("script/*/"))
    work = scripts == SMALL
    home = folder / f"{name}-{scripts}"
    write_world(home / "scale", "CM", known, scripts, work)
    env = cm_home(home, [repository, home / "scale"])
    jobs = jobs_of(cm, "version", own, work)
    cm_repos = home / "CM"
    index = (cm_repos / "cmbench" / "index.db",) if own else (cm_repos / "index.json",)
    return World(scripts, Engine(name, jobs, env, home, home / "calls"), index, repeat)


def mlc_world(folder: Path, mlc: str, scripts: int, repeat: int) -> World:
    """The engine inside PyPI's mlcflow."""
    work = scripts == SMALL
    home = folder / f"mlcflow-{scripts}"
    write_world(home / "scale", "MLC", 0, scripts, work)
    env = mlc_home(home, [home / "scale"])
    jobs = jobs_of(mlc, "--version", own=False, work=work)
    names = ("script", "cache", "experiment")
    index = tuple(home / "repos" / f"index_{name}.json" for name in names)
    index += (home / "repos" / "modified_times.json",)
    return World(scripts, Engine("mlcflow", jobs, env, home, home / "calls"), index, repeat)


def set_up(options: argparse.Namespace, folder: Path) -> list[World]:
    worlds = []
    copy = copy_of(options.cm4mlops, folder) if options.cm4mlops else None
    for scripts in options.sizes:
        worlds.append(cm_world("cmbench", folder, options.cm, ROOT, scripts, options.repeat))
        peers = []
        if copy:
            command = options.cm4mlops_cm or options.cm
            peers.append(cm_world("cm4mlops", folder, command, copy, scripts, options.peer_repeat))
        if options.mlc:
            peers.append(mlc_world(folder, options.mlc, scripts, options.peer_repeat))
        worlds += [replace(w, engine=replace(w.engine, limit=options.peer_limit)) for w in peers]
    return worlds


def make_index(world: World) -> None:
    """Let an engine find its scripts before anything is measured, by the interpreter it has."""
    for path in world.index:
        path.unlink(missing_ok=True)
    engine = world.engine
    command, *words = engine.jobs[WARM]
    with open(command, encoding="utf-8") as stream:
        python = stream.readline().removeprefix("#!").strip()
    job = [python, "-c", FAST_YAML, command, *words]
    replace(engine, jobs={WARM: job}, limit=0).run(WARM)


def measure(worlds: Sequence[World], say: Any) -> None:
    """Every job of every world once to warm up, then its rounds, the worlds in changing order."""
    for world in worlds:
        place = f"{world.engine.name}, {world.scripts:,} scripts"
        say(f"index: {place}")
        make_index(world)
        for job in world.engine.jobs:
            say(f"first {job}: {place}")
            # The first run makes what later ones find in the cache, however long that takes.
            engine = replace(world.engine, limit=0) if job == RUN else world.engine
            cost = engine.run(job)
            if not cost.whole:
                say(f"stopped after {cost.cpu:.0f} s of CPU")
                world.engine.costs[job] = [cost]
                # It may have been about to write its index.
                make_index(world)
    for number in range(max(world.repeat for world in worlds)):
        say(f"round {number + 1}")
        turns = [world for world in worlds if number < world.repeat]
        random.Random(number).shuffle(turns)
        for world in turns:
            one_round(world)


def one_round(world: World) -> None:
    """Each job once, the cold one without the index, the others with the one that there was."""
    kept = {path: path.with_name(path.name + ".kept") for path in world.index if path.exists()}
    for job in world.engine.jobs:
        if world.engine.stopped(job):
            continue
        if job == COLD:
            for path, place in kept.items():
                path.rename(place)
        world.engine.costs.setdefault(job, []).append(world.engine.run(job))
        if job == COLD:
            for path, place in kept.items():
                place.replace(path)


# ---------------------------------------------------------------- a full cache


def entries_engine(folder: Path, cm: str, number: int) -> Engine:
    """A home whose cache has ``number`` entries more than those that a run has made."""
    home = folder / "entries"
    repository = home / "scale"
    write_identity(repository, "CM", "scale")
    meta = {"cache": True, "new_env_keys": ["CM_SCALE"], "env": {"CM_SCALE": "yes"}}
    write_script(repository, "CM", "scale-kept", meta)
    env = cm_home(home, [ROOT, repository])
    jobs = {job: [cm, *line.split()] for job, line in ENTRY_JOBS.items()}
    engine = Engine("cmbench", {VERSION: [cm, "version"], **jobs}, env, home, home / "calls")
    engine.run("run, a hit")
    write_entries(home / "CM" / "cmbench" / "v1", number)
    return engine


def write_entries(store: Path, number: int) -> None:
    """Copies of the one entry in ``store``, nine in ten of them made with the one before."""
    from cmbench.cache.cache_entry import sealed, unsealed

    (path,) = store.glob("entries/*/*.json")
    base = unsealed(path.read_text(encoding="utf-8"))
    key = ""
    for count in range(number):
        uid, identity = f"{count:016x}", f"{count + 1:024x}"
        script, made = f"scale-other-{count % 1000}", 1_600_000_000 + count
        folder = store / "store" / f"{script}_{uid}"
        folder.mkdir()
        (folder / "file").write_text("kept")
        entry = {
            **base,
            "uid": uid,
            "identity": identity,
            "script": script,
            "script_uid": f"{count % 1000:016x}",
            "path": str(folder),
            "tags": ["scale", "kept", f"n-{count}"],
            "deps": [key] if count % 10 else [],
            "created": made,
            "size": 4,
        }
        key = f"{identity}/{uid}"
        metadata = store / "entries" / identity / f"{uid}.json"
        metadata.parent.mkdir()
        metadata.write_text(sealed(json.dumps(entry)), encoding="utf-8")
        for old in (metadata, metadata.parent):
            os.utime(old, (made, made))


def measure_entries(engine: Engine, repeat: int, say: Any) -> None:
    """The first question once, each other one once to warm up, and then in rounds."""
    jobs = [job for job in engine.jobs if job != FIRST]
    engine.costs[FIRST] = [engine.run(FIRST)]
    for number in range(repeat + 1):
        say(f"entries: round {number}")
        for job in jobs:
            cost = engine.run(job)
            if number:
                engine.costs.setdefault(job, []).append(cost)


def entry_seconds(engine: Engine) -> dict[str, float]:
    """Median CPU seconds of each question above the start of the command."""
    start = engine.median(VERSION)
    assert start is not None
    medians = {job: engine.median(job) for job in ENTRY_JOBS}
    return {job: cost.cpu - start.cpu for job, cost in medians.items() if cost is not None}


# ---------------------------------------------------------------- what came out


def verdicts(world: World) -> list[tuple[str, float, float]]:
    """(what, CPU seconds measured, at most) for each target."""
    return [
        (f"{job}, CPU seconds above {base}", measured, most)
        for job, most in TARGETS.items()
        if (measured := world.cpu_above(job, base := ONE.get(job, VERSION))) is not None
    ]


def table(worlds: Sequence[World]) -> str:
    """Medians of every job; the ratio is CPU above start over that of this project's engine.

    What was stopped at its limit is ``>`` what it had taken by then.
    """
    head = (
        f"{'scripts':>7}  {'job':<15}{'engine':<9}{'runs':>4}{'CPU s':>9}{'above start':>13}"
        f"{'above one':>11}{'ratio':>8}"
    )
    lines = [head, "-" * len(head)]
    for scripts in dict.fromkeys(world.scripts for world in worlds):
        group = [world for world in worlds if world.scripts == scripts]
        for job in group[0].engine.jobs:
            lines += list(rows(group, job))
    return "\n".join(lines)


def rows(group: Sequence[World], job: str) -> Iterator[str]:
    first = group[0].cpu_above(job)
    for world in group:
        cost, above = world.engine.median(job), world.cpu_above(job)
        assert cost is not None
        assert above is not None
        more = world.cpu_above(job, ONE[job]) if job in ONE else None
        start = job == VERSION
        ratio = None if start or first is None or first <= 0 else above / first

        def shown(value: float | None, digits: int = 3, whole: bool = cost.whole) -> str:
            text = "" if value is None else f"{value:.{digits}f}"
            return text if whole or not text else f">{text}"

        yield (
            f"{world.scripts:>7,}  {job:<15}{world.engine.name:<9}"
            f"{len(world.engine.costs[job]):>4}{shown(cost.cpu):>9}"
            f"{shown(None if start else above):>13}{shown(more):>11}{shown(ratio, 1):>8}"
        ).rstrip()


def as_json(worlds: Iterable[World]) -> dict[str, Any]:
    """Everything measured, in seconds, with what it was measured on."""
    return {
        "machine": machine(),
        "worlds": [
            {
                "engine": world.engine.name,
                "scripts": world.scripts,
                "jobs": {
                    job: {
                        "wall_s": [cost.wall for cost in costs],
                        "cpu_s": [cost.cpu for cost in costs],
                        "stopped": world.engine.stopped(job),
                        "cpu_s_above_start": world.cpu_above(job),
                    }
                    for job, costs in world.engine.costs.items()
                },
            }
            for world in worlds
        ],
    }


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_engine_options(parser)
    parser.add_argument("--repeat", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--peer-repeat",
        type=int,
        default=5,
        help="rounds of the other engines, which may take minutes each (default: %(default)s)",
    )
    parser.add_argument(
        "--peer-limit",
        type=int,
        default=120,
        metavar="SECONDS",
        help="CPU after which a job of another engine is stopped (default: %(default)s)",
    )
    parser.add_argument(
        "--cm4mlops-cm", help="the cm command for cm4mlops (default: the one of --cm)"
    )
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(word) for word in text.split(",") if word != "0"],
        default=[SMALL, LARGE],
        help=f"scripts registered, 0 to leave that part out (default: {SMALL},{LARGE})",
    )
    parser.add_argument(
        "--entries",
        type=int,
        default=ENTRIES,
        help="entries of the full cache, 0 to leave that part out (default: %(default)s)",
    )
    options = parser.parse_args(words)
    if not options.cm:
        parser.error("no cm command found: pip install . or name one with --cm")
    return options


def main(words: Sequence[str] | None = None) -> int:
    options = parse(words)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="cmbench-scale-") as folder:
        worlds = set_up(options, Path(folder))
        if worlds:
            measure(worlds, say)
            print(table(worlds))
        results = verdicts(worlds[0]) if worlds else []
        if options.entries:
            engine = entries_engine(Path(folder), options.cm, options.entries)
            measure_entries(engine, options.repeat, say)
            seconds = entry_seconds(engine)
            print(f"CPU seconds above start with {options.entries:,} entries in the cache")
            print("\n".join(f"  {job:<16}{cost:8.3f}" for job, cost in seconds.items()))
            slowest = max((job for job in seconds if job != FIRST), key=seconds.__getitem__)
            results.append((f"entries, slowest: {slowest}", seconds[slowest], ENTRY_SECONDS))
        for what, measured, most in results:
            verdict = "PASS" if measured <= most else "FAIL"
            print(f"{verdict}  {what}: {measured:.3f} (at most {most:g})")
        if options.json:
            report = json.dumps(as_json(worlds), indent=1)
            Path(options.json).write_text(report + "\n", encoding="utf-8")
    missed = any(measured > most for _, measured, most in results)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
