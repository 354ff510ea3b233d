"""What the engine costs by itself: the start of a command, and each dependency found in the cache.

Runs whole processes, as a user would: `cm version` (what cmind costs without an engine),
`cm run script --tags=detect,os`, and a generated script with 0 and with 100 dependencies that the
cache holds. Everything happens in temporary homes, each with the same number of scripts registered.
With --cm4mlops and --mlc the other engines of the format do the same jobs in the same run, turn by
turn, so that whatever else the machine does reaches all of them.

    python benchmarks/engine_overhead.py
    python benchmarks/engine_overhead.py --cm4mlops ~/cm4mlops --mlc ~/mlc/bin/mlc --json out.json

With --before another checkout of this repository is measured in the same turns: what a change of
the engine has won or lost.

    git worktree add /tmp/before COMMIT && python benchmarks/engine_overhead.py --before /tmp/before
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from library_env import library_env

ROOT = Path(__file__).resolve().parents[1]
SCRIPT_AUTOMATION = "5b4e0237da074764"
DEPENDENCIES = 100

# The targets that a change of the engine must keep; see --check.
DETECT_OVER_VERSION = 1.5
CPU_MS_PER_DEPENDENCY = 1.0

STOPPED = (-signal.SIGXCPU, -signal.SIGKILL)
WAIT = 10
"""A job with a limit may take so many times its limit on the clock of a busy machine."""

VERSION, DETECT, NO_DEPS, ALL_DEPS = "version", "detect,os", "0 deps", f"{DEPENDENCIES} deps"


@dataclass(frozen=True, slots=True)
class Cost:
    """One process, its children included: seconds on the clock, seconds of CPU.

    One that is not ``whole`` was stopped at its limit.
    """

    wall: float
    cpu: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine set up in a home of its own; ``jobs`` maps a job's name to its command line.

    ``limit`` is how many seconds of CPU a job may take, 0 for as many as it likes.
    """

    name: str
    jobs: Mapping[str, Sequence[str]]
    env: Mapping[str, str]
    home: Path
    calls: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    limit: int = 0

    def run(self, job: str) -> Cost:
        """Run one job to its end or limit; one that fails ends the benchmark with its output."""
        with tempfile.TemporaryFile() as output:
            start = time.perf_counter()
            process = subprocess.Popen(
                self.jobs[job],
                cwd=self.home,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with limited(process.pid, self.limit):
                _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if self.limit and process.returncode in STOPPED:
                return Cost(wall, usage.ru_utime + usage.ru_stime, whole=False)
            if process.returncode:
                output.seek(0)
                text = output.read().decode(errors="replace")
                sys.exit(f"{self.name}: {' '.join(self.jobs[job])} failed:\n{text}")
        return Cost(wall, usage.ru_utime + usage.ru_stime)

    def median(self, job: str) -> Cost | None:
        """The medians of wall and CPU seconds of a job, or None where it was not run."""
        costs = self.costs.get(job)
        if not costs:
            return None
        if self.stopped(job):
            return costs[0]
        wall = statistics.median(cost.wall for cost in costs)
        return Cost(wall, statistics.median(cost.cpu for cost in costs))

    def stopped(self, job: str) -> bool:
        """Whether the job has been stopped at its limit, which is not tried again."""
        return any(not cost.whole for cost in self.costs.get(job, ()))

    def started_dependencies(self) -> int:
        """How many dependencies were really run, in all rounds together."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@contextmanager
def limited(pid: int, seconds: int) -> Iterator[None]:
    """Have a process and what it starts stopped after ``seconds`` of CPU, or long after that."""
    if not seconds:
        yield
        return
    # What takes no CPU, such as a question that nobody answers, must come to its end as well.
    timer = threading.Timer(WAIT * seconds, os.killpg, (pid, signal.SIGKILL))
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# ---------------------------------------------------------------- what they run


def write_scripts(folder: Path, dialect: str, calls: Path, fillers: int) -> None:
    """Write the generated scripts of one engine into ``folder/script``.

    ``dialect`` is ``CM`` or ``MLC``, the prefix of env keys. Each dependency appends a line to
    ``calls`` when it is run, which tells a hit in the cache from a run that is merely quick.
    """
    depth = len(folder.relative_to(calls.parent).parts) + 2
    for number in range(DEPENDENCIES):
        key = f"{dialect}_OVERHEAD_{number}"
        meta = {"cache": True, "env": {key: "yes"}, "new_env_keys": [key]}
        child = write_script(folder, dialect, f"overhead-child-{number}", meta)
        child.joinpath("customize.py").write_text(
            "from pathlib import Path\n\n\n"
            "def preprocess(i):\n"
            # A path that stands in the source whole would count for the cache, and change.
            f"    with open(Path(__file__).parents[{depth}] / {calls.name!r}, 'a') as calls:\n"
            f"        calls.write('{number}\\n')\n"
            "    return {'return': 0}\n"
        )
    deps = [{"tags": tags_of(f"overhead-child-{number}")} for number in range(DEPENDENCIES)]
    write_script(folder, dialect, "overhead-parent-all", {"cache": False, "deps": deps})
    write_script(folder, dialect, "overhead-parent-none", {"cache": False})
    for number in range(fillers):
        write_script(folder, dialect, f"overhead-filler-{number}", {"cache": False})


def write_script(folder: Path, dialect: str, alias: str, meta: Mapping[str, Any]) -> Path:
    path = folder / "script" / alias
    path.mkdir(parents=True)
    identity = {
        "alias": alias,
        "uid": f"{random.Random(alias).getrandbits(64):016x}",
        "automation_alias": "script",
        "automation_uid": SCRIPT_AUTOMATION,
        "tags": tags_of(alias).split(","),
    }
    # YAML, although JSON is read many times faster, because the scripts of all three are YAML.
    name = "meta.yaml" if dialect == "MLC" else "_cm.yaml"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    path.joinpath(name).write_text(yaml.dump({**identity, **meta}, Dumper=dumper, sort_keys=False))
    return path


def tags_of(alias: str) -> str:
    return alias.replace("-", ",")


def write_repository(folder: Path, dialect: str, calls: Path, known: int, wanted: int) -> Path:
    """A repository of generated scripts that brings ``known`` scripts to ``wanted``, if it can."""
    write_identity(folder, dialect, "overhead")
    fillers = max(0, wanted - known - DEPENDENCIES - 2)
    write_scripts(folder, dialect, calls, fillers)
    return folder


def write_identity(folder: Path, dialect: str, alias: str) -> None:
    """Make ``folder`` a repository that an engine of that dialect accepts."""
    folder.mkdir(parents=True)
    meta = {"alias": alias, "uid": "c0ffee0123456789", "git": False}
    name = "meta.yaml" if dialect == "MLC" else "cmr.yaml"
    folder.joinpath(name).write_text(yaml.safe_dump(meta))


# ---------------------------------------------------------------- the engines


def environment(home: Path, **extra: str) -> dict[str, str]:
    """An environment with that home, in which Python may keep its byte code, as users have it."""
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("CM_", "MLC_")) and key != "PYTHONDONTWRITEBYTECODE"
    }
    return {**env, "HOME": str(home), **extra}


def job_lines(command: Sequence[str], version: Sequence[str], detect: bool) -> dict[str, list[str]]:
    def run(tags: str) -> list[str]:
        return [*command, "run", "script", f"--tags={tags}", "--quiet"]

    jobs = {VERSION: [*command, *version]}
    if detect:
        jobs[DETECT] = run("detect,os")
    jobs[NO_DEPS] = run(tags_of("overhead-parent-none"))
    jobs[ALL_DEPS] = run(tags_of("overhead-parent-all"))
    return jobs


def cm_home(home: Path, repositories: Sequence[Path]) -> dict[str, str]:
    """Register ``repositories`` with the ``cm`` of that home; returns its environment."""
    cm_repos = home / "CM"
    cm_repos.mkdir()
    cm_repos.joinpath("repos.json").write_text(json.dumps([str(path) for path in repositories]))
    # Packages installed beside `cm` would otherwise come first, and one of them may be an engine.
    return environment(home, CM_REPOS=str(cm_repos), CM_CORE_SKIP_INTERNAL_REPOS="yes")


def mlc_home(home: Path, repositories: Sequence[Path]) -> dict[str, str]:
    """Register ``repositories`` with the ``mlc`` of that home; returns its environment."""
    mlc_repos = home / "repos"
    local = mlc_repos / "local"
    local.mkdir(parents=True)
    local.joinpath("meta.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n")
    known = [str(path) for path in (local, *repositories)]
    mlc_repos.joinpath("repos.json").write_text(json.dumps(known))
    return environment(home, MLC_REPOS=str(mlc_repos))


def copy_of(checkout: Path, folder: Path) -> Path:
    """A copy, so that the byte code that is written does not end up in somebody's checkout."""
    copy = folder / "cm4mlops-repository"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    return copy


def cm_engine(name: str, home: Path, cm: str, repository: Path, scripts: int) -> Engine:
    """``cm`` with the engine that ``repository`` brings."""
    home.mkdir()
    calls = home / "calls"
    known = sum(1 for _ in repository.glob("script/*/"))
    generated = write_repository(home / "overhead", "CM", calls, known, scripts)
    env = cm_home(home, [repository, generated])
    # An engine that is installed beside `cm` would be in front of that of another checkout.
    env = library_env(repository / "automation", base=env)
    return Engine(name, job_lines([cm], ["version"], detect=True), env, home, calls)


def mlc_engine(home: Path, mlc: str, scripts: int) -> Engine:
    """The engine inside PyPI's mlcflow; the package brings no script that detects the OS."""
    home.mkdir()
    calls = home / "calls"
    generated = write_repository(home / "overhead", "MLC", calls, 0, scripts)
    env = mlc_home(home, [generated])
    return Engine("mlcflow", job_lines([mlc], ["--version"], detect=False), env, home, calls)


def set_up(options: argparse.Namespace, folder: Path) -> list[Engine]:
    engines = [cm_engine("cmbench", folder / "cmbench", options.cm, ROOT, options.scripts)]
    if options.before:
        root = options.before.resolve()
        engines.append(cm_engine("before", folder / "before", options.cm, root, options.scripts))
    if options.cm4mlops:
        copy = copy_of(options.cm4mlops, folder)
        name, home = "cm4mlops", folder / "cm4mlops"
        engines.append(cm_engine(name, home, options.cm, copy, options.scripts))
    if options.mlc:
        engines.append(mlc_engine(folder / "mlcflow", options.mlc, options.scripts))
    return engines


def measure(engines: Sequence[Engine], repeat: int, say: Any) -> None:
    """Run every job of every engine once to warm up, then ``repeat`` rounds in changing order."""
    turns = [(engine, job) for engine in engines for job in engine.jobs]
    for engine, job in turns:
        engine.run(job)
    for number in range(repeat):
        say(f"round {number + 1} of {repeat}")
        random.Random(number).shuffle(turns)
        for engine, job in turns:
            engine.costs.setdefault(job, []).append(engine.run(job))
    for engine in engines:
        if engine.started_dependencies() != DEPENDENCIES:
            say(
                f"{engine.name}: the cache failed: {DEPENDENCIES} dependencies were run "
                f"{engine.started_dependencies()} times in {repeat + 1} rounds"
            )


# ---------------------------------------------------------------- what came out


def cpu_ms_per_dependency(engine: Engine) -> float:
    full, empty = engine.median(ALL_DEPS), engine.median(NO_DEPS)
    assert full is not None
    assert empty is not None
    return (full.cpu - empty.cpu) / DEPENDENCIES * 1000


def over_version(engine: Engine, job: str) -> Cost | None:
    """The job's cost as a multiple of the same engine's ``version``."""
    cost, base = engine.median(job), engine.median(VERSION)
    if cost is None or base is None:
        return None
    return Cost(cost.wall / base.wall, cost.cpu / base.cpu)


def verdicts(engine: Engine) -> list[tuple[str, float, float]]:
    """(what, measured, at most) for each target."""
    detect = over_version(engine, DETECT)
    assert detect is not None
    return [
        ("detect,os over cm version, wall", detect.wall, DETECT_OVER_VERSION),
        ("detect,os over cm version, CPU", detect.cpu, DETECT_OVER_VERSION),
        ("CPU ms per cached dependency", cpu_ms_per_dependency(engine), CPU_MS_PER_DEPENDENCY),
        ("dependencies run again", engine.started_dependencies() - DEPENDENCIES, 0),
    ]


def table(engines: Iterable[Engine]) -> str:
    head = f"{'engine':<10}{'job':<12}{'wall ms':>9}{'CPU ms':>9}{'x version':>11}{'CPU x':>7}"
    lines = [head, "-" * len(head)]
    for engine in engines:
        for job in engine.jobs:
            cost, ratio = engine.median(job), over_version(engine, job)
            assert cost is not None
            assert ratio is not None
            lines.append(
                f"{engine.name:<10}{job:<12}{cost.wall * 1000:>9.1f}{cost.cpu * 1000:>9.1f}"
                f"{ratio.wall:>11.2f}{ratio.cpu:>7.2f}"
            )
        lines.append(f"{'':<10}CPU ms per cached dependency: {cpu_ms_per_dependency(engine):.2f}")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """What a benchmark ran on."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg(),
    }


def as_json(engines: Iterable[Engine], options: argparse.Namespace) -> dict[str, Any]:
    """Everything measured, in seconds, with what it was measured on."""
    return {
        "machine": machine(),
        "repeat": options.repeat,
        "scripts": options.scripts,
        "dependencies": DEPENDENCIES,
        "engines": {
            engine.name: {
                "cpu_ms_per_dependency": cpu_ms_per_dependency(engine),
                "dependencies_run": engine.started_dependencies(),
                "jobs": {
                    job: {
                        "wall_s": [cost.wall for cost in engine.costs[job]],
                        "cpu_s": [cost.cpu for cost in engine.costs[job]],
                    }
                    for job in engine.jobs
                },
            }
            for engine in engines
        },
    }


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """The options of every benchmark of the engine: whom to measure, where the figures go."""
    beside = Path(sys.executable).parent / "cm"
    default_cm = str(beside) if beside.exists() else shutil.which("cm")
    parser.add_argument("--cm", default=default_cm, help="the cm command (default: %(default)s)")
    parser.add_argument("--cm4mlops", type=Path, help="a checkout of cm4mlops to compare with")
    parser.add_argument("--mlc", help="the mlc command of an installed mlcflow to compare with")
    parser.add_argument("--json", metavar="FILE", help="also write every figure to this file")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_engine_options(parser)
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--repeat", type=int, default=10, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--scripts",
        type=int,
        default=400,
        help="scripts registered with each engine, empty ones included (default: %(default)s)",
    )
    options = parser.parse_args(words)
    if not options.cm:
        parser.error("no cm command found: pip install . or name one with --cm")
    return options


def main(words: Sequence[str] | None = None) -> int:
    options = parse(words)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="cmbench-overhead-") as folder:
        engines = set_up(options, Path(folder))
        measure(engines, options.repeat, say)
        print(table(engines))
        results = verdicts(engines[0])
        for what, measured, most in results:
            verdict = "PASS" if measured <= most else "FAIL"
            print(f"{verdict}  {what}: {measured:.2f} (at most {most:g})")
        if options.json:
            report = json.dumps(as_json(engines, options), indent=1)
            Path(options.json).write_text(report + "\n", encoding="utf-8")
    missed = any(measured > most for _, measured, most in results)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
