"""``cm run experiment --sweep=FILE`` on this machine: each point once, whatever ends it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_lab import RUN, points, start

from support import HANG_S, ROOT, Finished, Home, run, wait_for

Cm = Callable[..., Finished]
Counted = Callable[[], list[str]]


def change(world: Path, old: str, new: str) -> None:
    path = world / "sweep.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_sweep_from_its_plan_to_its_best_point(cm: Cm, counted: Counted, world: Path) -> None:
    planned = cm("plan", "experiment", "--sweep=sweep.yaml").ok().stdout
    assert "sweep: 6 points" in planned
    assert "get-model" in planned
    assert "not known before the first" in planned
    assert counted() == []
    told = cm(*RUN).ok().stdout
    assert "6 of 6" in told
    assert sorted(counted()) == sorted(
        ["prepared", *(f"{s},{t}" for s in (1, 2, 4) for t in (1, 2))]
    )
    assert counted()[0] == "prepared", "what points share is made before the first"
    shown = cm("show", "experiment", "sweep").ok().stdout
    assert "best rate: 199" in shown
    page = Path(world, shown.splitlines()[-1].removeprefix("picture: "))
    assert {"sweep.svg", "sweep.png"} <= {path.name for path in page.parent.iterdir()}
    line = cm("show", "experiment", "sweep", "--best").ok().stdout
    assert line.strip() == "cm run script --tags=measure,nothing --threads=2 --size=1"
    cm(*line.split()[1:]).ok()
    edge = json.loads(cm("show", "experiment", "sweep", "--frontier=rate,delay", "--json").stdout)
    assert [row["values"] for row in edge] == [{"size": 1, "threads": 2}]
    each = json.loads(cm("show", "experiment", "sweep", "--effects=rate", "--json").ok().stdout)
    two = next(row for row in each if row["axis"] == "threads" and row["value"] == 2)
    assert two["ratios"] == [199 / 99, 198 / 98, 196 / 96]
    _export_is_what_show_says(cm, world)
    assert "6 of 6" in cm("show", "experiment").ok().stdout
    for words in (("plan", "experiment", "--sweep=sweep.yaml"), ("show", "experiment", "sweep")):
        assert all(len(line) <= 80 for line in cm(*words).ok().stdout.splitlines())


def _export_is_what_show_says(cm: Cm, world: Path) -> None:
    table = world / "points.csv"
    line = ("export", "experiment", "sweep", f"--output={table}")
    assert "6 points in" in cm(*line).ok().stdout
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    shown = points(cm("show", "experiment", "sweep", "--json").ok())
    by_number = sorted(shown, key=lambda point: point["point"])
    for row, point in zip(rows, by_number, strict=True):
        assert row["values.size"] == str(point["values"]["size"])
        assert float(row["figures.rate"]) == point["figures"]["rate"]
        assert (row["status"], row["command"]) == (point["status"], point["command"])
    assert "exists already" in cm(*line).stderr
    assert "--csv takes no value" in cm(*line, "--csv=x.csv").stderr


def test_the_sweep_of_the_guide_is_one(home: Home, world: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "sweeps.md").read_text(encoding="utf-8")
    text = guide.partition("```yaml\n")[2].partition("```")[0]
    (world / "guide.yaml").write_text(text, encoding="utf-8")
    done = home.cm("plan", "experiment", "--sweep=guide.yaml", cwd=world).ok()
    assert "guide: 20 points" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()[1:])


def test_a_table_has_the_figures_that_were_asked_for_and_what_differs(cm: Cm, world: Path) -> None:
    leaves = "import json\ndef preprocess(i):\n    json.dump(dict(a=1, b=2, c=3, d=4), "
    leaves += 'open("cm-result.json", "w"))\n    return {"return": 0}\n'
    (world / "repo/script/measure-nothing/customize.py").write_text(leaves, encoding="utf-8")
    change(world, "record: {rate: env.CM_RATE, delay: env.CM_DELAY}\n", "")
    change(
        world, "objectives: {rate: max, delay: min}", "objectives: {d: max}\nconstraints: [c > 0]"
    )
    change(world, "threads: [1, 2]", "threads: [7]")
    shown = cm(*RUN).ok().stdout
    assert "               d               c               a  runs" in shown
    assert "size=4\n" in shown


def test_it_is_measured_once_and_a_larger_sweep_measures_what_is_new(
    cm: Cm, counted: Counted, world: Path
) -> None:
    cm(*RUN).ok()
    before = counted()
    cm(*RUN).ok()
    assert counted() == before
    change(world, "[1, 2, 4]", "[1, 2, 4, 8]")
    planned = json.loads(cm("plan", "experiment", "--sweep=sweep.yaml", "--json").ok().stdout)
    assert (planned["measured"], len(planned["points"])) == (6, 8)
    cm(*RUN, "--name=larger").ok()
    assert counted()[len(before) :] == ["8,1", "8,2"]
    cm(*RUN, "--new").ok()
    assert len(counted()) == len(before) + 2 + 8


def test_what_was_measured_stays_where_measuring_it_anew_cannot_begin(
    cm: Cm, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = points(cm(*RUN, "--json").ok())
    monkeypatch.setenv("CMBENCH_SSH", "false")
    assert cm(*RUN, "--new", "--hosts=nosuch").status != 0
    assert points(cm("show", "experiment", "sweep", "--json").ok()) == before


def test_points_that_lack_what_an_edited_file_asks_for_are_told_and_completed(
    cm: Cm, counted: Counted, world: Path
) -> None:
    change(world, "[1, 2, 4]", "[1, 2]")
    change(
        world, "record: {rate: env.CM_RATE, delay: env.CM_DELAY}", "record: {delay: env.CM_DELAY}"
    )
    change(world, "{rate: max, delay: min}", "{delay: min}")
    cm(*RUN).ok()
    change(world, "[1, 2]\n  threads", "[1, 2, 4]\n  threads")
    change(world, "record: {", "record: {rate: env.CM_RATE, ")
    lacking = "4 measured points with fewer figures or runs"
    assert lacking in cm("plan", "experiment", "--sweep=sweep.yaml").ok().stdout
    assert lacking in cm(*RUN).ok().stdout
    assert len(counted()) == 1 + 6
    found = points(cm(*RUN, "--complete", "--json").ok())
    assert all({*each["figures"]} == {"rate", "delay"} for each in found)
    assert len(counted()) == 1 + 6 + 4
    change(world, "objectives", "repeat: 2\nobjectives")
    found = points(cm(*RUN, "--complete", "--json").ok())
    assert [len(each["runs"]) for each in found] == [2] * 6


def test_a_failed_point_keeps_its_reason_and_stops_no_other(
    cm: Cm, counted: Counted, world: Path
) -> None:
    change(world, "  threads: 1\n", "  threads: 1\n  bad: 2\n  crash: 4\n")
    done = cm(*RUN, "--json")
    assert done.status == 1
    assert "[points-failed]: 4 of 6" in done.stderr
    found = {point["values"]["size"]: point for point in points(done)}
    assert {size: point["status"] for size, point in found.items()} == {
        1: "measured",
        2: "failed",
        4: "failed",
    }
    assert "size 2 does not fit" in found[2]["reason"]
    assert Path(found[2]["record"]).is_file()
    assert found[4]["code"] == "run-lost"
    assert "SIGKILL" in found[4]["reason"]
    before = counted()
    assert cm(*RUN).status == 1
    assert counted() == before
    assert cm(*RUN, "--retry-failed").status == 1
    assert sorted(counted()[len(before) :]) == ["2,1", "2,2", "4,1", "4,2"]


def test_a_sweep_that_was_killed_goes_on(home: Home, cm: Cm, counted: Counted, world: Path) -> None:
    change(world, "  threads: 1\n", "  threads: 1\n  sleep: 0.4\n")
    for kill in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        before = len(counted())
        running = start(home)
        wait_for(lambda n=before: len(counted()) >= n + 2)
        running.send_signal(kill)
        running.communicate(timeout=HANG_S)
        wait_for(lambda: not _locked(world / "CM home" / "cmbench" / "sweeps" / "points"))
    found = points(cm(*RUN, "--json").ok())
    assert [point["status"] for point in found] == ["measured"] * 6
    assert [len(point["runs"]) for point in found] == [1] * 6
    known = len(counted())
    cm(*RUN).ok()
    assert len(counted()) == known


def _locked(folder: Path) -> bool:
    from cmbench.lib import locks

    return any(locks.is_held(path) for path in folder.glob("*/lock"))


def test_several_at_once_measure_each_point_once(home: Home, world: Path, counted: Counted) -> None:
    change(world, "[1, 2, 4]", "{from: 1, to: 10, step: 1}")
    change(world, "  threads: 1\n", "  threads: 1\n  sleep: 0.02\n")
    running = [start(home) for _ in range(3)]
    told = [process.communicate(timeout=HANG_S)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], told
    runs = [line for line in counted() if line != "prepared"]
    assert len(runs) == len(set(runs)) == 20


def test_a_point_is_repeated_until_its_spread_is_small(
    cm: Cm, counted: Counted, world: Path
) -> None:
    change(world, "axes:", "repeat: {most: 5, least: 3, spread: 1%}\naxes:")
    found = points(cm(*RUN, "--json").ok())
    assert [len(point["runs"]) for point in found] == [3] * 6
    change(world, "record: {rate: env.CM_RATE, delay: env.CM_DELAY}\n", "")
    change(world, "objectives: {rate: max, delay: min}\n", "objectives: {seconds: min}\n")
    change(world, "spread: 1%", "spread: 0%")
    found = points(cm(*RUN, "--new", "--json").ok())
    assert {len(point["runs"]) for point in found} <= {3, 4, 5}
    assert 5 in {len(point["runs"]) for point in found}


def test_a_run_that_takes_too_long_fails_and_the_budget_ends_a_sweep(
    cm: Cm, world: Path, counted: Counted
) -> None:
    change(world, "  threads: 1\n", "  threads: 1\n  sleep: 60\n")
    change(world, "axes:", "budget: {point_time: 0.5s, points: 2}\naxes:")
    done = cm(*RUN, "--json")
    assert [point["code"] for point in points(done)] == ["out-of-time"] * 2
    assert "ran past 0.5 s" in points(done)[0]["reason"]
    change(world, "point_time: 0.5s, points: 2", "time: 0.001s")
    assert "2 failed, 4 still to do" in cm(*RUN).stdout
    done = cm(*RUN, "--retry-failed")
    assert "6 of 6 points are still to do" in done.stderr
    assert done.status == 1


FILLS = """
import os
if os.environ.get("FILLS") and i["env"]["CM_SIZE"] == "2":
    with open(os.environ["FILLS"], "wb", 0) as stream:
        while True:
            stream.write(bytes(1 << 12))
"""
DISK = """
mount -t tmpfs -o size=8m disk "$CM_REPOS/cmbench" || exit 99
FILLS="$CM_REPOS/cmbench/filler" cm run experiment --sweep=sweep.yaml >first 2>&1
echo $? >>first
rm "$CM_REPOS/cmbench/filler"
cm run experiment --sweep=sweep.yaml --retry-failed --json >second 2>>problems
"""


def apart(script: str) -> list[str]:
    """The words that run a script of the shell where it may mount, and nobody else sees that."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script]


@pytest.mark.skipif(
    subprocess.run(apart("true"), capture_output=True).returncode != 0,
    reason="no user namespaces here, in which a disk can be mounted",
)
def test_a_disk_that_fills_up_in_mid_run(home: Home, counted: Counted, world: Path) -> None:
    script = world / "repo" / "script" / "measure-nothing" / "customize.py"
    text = script.read_text(encoding="utf-8")
    filled = FILLS.replace("\n", "\n    ")
    script.write_text(
        text.replace("    with open", f"{filled}\n    with open", 1), encoding="utf-8"
    )
    home.cm("find", "script", "--tags=measure,nothing").ok()
    done = run(apart(DISK), cwd=world, env=home.environment())
    first = (world / "first").read_text(encoding="utf-8")
    assert done.status == 0, first + (world / "problems").read_text(encoding="utf-8")
    assert "2 of 6" in first
    assert "error [no-space]: measure-nothing: no space left" in first
    assert "Traceback" not in first
    found = json.loads((world / "second").read_text(encoding="utf-8"))["points"]
    assert [(point["status"], len(point["runs"])) for point in found] == [("measured", 1)] * 6
    # The run that has filled the disk did not come to its measurement.
    assert sorted(counted()) == ["1,1", "1,2", "2,1", "2,2", "4,1", "4,2", "prepared"]


def test_a_full_disk_ends_the_sweep_and_nothing_half_made_counts(
    cm: Cm, world: Path, home: Home
) -> None:
    folder = world / "CM home" / "cmbench" / "sweeps"
    folder.mkdir(parents=True)
    (folder / "points").write_text("in the way", encoding="utf-8")
    done = cm(*RUN)
    assert done.status
    assert "error [" in done.stderr
    assert "Traceback" not in done.stderr
    (folder / "points").unlink()
    cm(*RUN).ok()
    for path in (folder / "points").glob("*/outcome.json"):
        path.write_text(path.read_text(encoding="utf-8")[:20], encoding="utf-8")
    assert "still to do              6" in cm("plan", "experiment", "--sweep=sweep.yaml").stdout
    assert [point["status"] for point in points(cm(*RUN, "--json").ok())] == ["measured"] * 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ["the file is empty"]),
        (
            "axes: [1]\nreqest: {}",
            ["reqest is not known", '"request"', "is not a mapping", "give tags"],
        ),
        (
            """
            request: {tags: "measure,nothing"}
            axes: {sise: [1, 2], threads: []}
            exclude: [thread > 1]
            repeat: {moist: 2}
            budget: {time: soon}
            zip: [sise, threads]
            """,
            [
                "thread is not known",
                '"threads"',
                '"most"',
                "not a time",
                "different numbers",
                "no values",
            ],
        ),
        (
            "request: {tags: 'measure,nothing'}\naxes: {sise: [1], tread: [2]}",
            ["knows no flag --sise", '"size"'],
        ),
        ("request: {tags: 'measure,nothink'}", ["measure"]),
        ("request: {tags: a}\naxes: {a: {from: 3, to: 1, step: 1}}", ["before it begins"]),
        ("request: {tags: a}\naxes: {a: '__import__(\"os\")'}", ["is not possible here"]),
        ("request: {tags: a}\naxes: {a: {from: 0, to: .inf, step: 1}}", ["not a number"]),
        ("a: [", ["bad.yaml:2:1: not valid YAML", "next: correct line 2 of it and try again"]),
    ],
)
def test_what_is_wrong_is_told_at_once(cm: Cm, world: Path, text: str, told: list[str]) -> None:
    (world / "bad.yaml").write_text(text, encoding="utf-8")
    done = cm("plan", "experiment", "--sweep=bad.yaml")
    assert done.status not in (0, None)
    said = " ".join(done.stderr.split())
    for part in told:
        assert part in said, done.stderr
    assert "Traceback" not in said


def test_flags_and_names_that_are_not_there(cm: Cm, world: Path) -> None:
    assert "did you mean" in cm(*RUN, "--retry_faled").stderr
    assert "--labels needs a value" in cm(*RUN, "--labels").stderr
    assert "does not exist" in cm("run", "experiment", "--sweep=none.yaml").stderr.replace(
        "No such file or directory", "does not exist"
    )
    cm(*RUN).ok()
    assert 'did you mean "sweep"' in cm("show", "experiment", "swep").stderr
    assert 'did you mean "rate"' in cm("show", "experiment", "sweep", "--best=rat").stderr
    told = cm("help", "experiment").ok().stdout
    assert "cm plan experiment" in told
    assert "--retry-failed" in cm("run", "experiment", "--help").ok().stdout


def test_points_excluded_zipped_and_of_variations(cm: Cm, world: Path) -> None:
    change(world, "objectives:", "zip: [size, sleep]\nexclude: [size * threads > 4]\nobjectives:")
    change(world, "axes:", "axes:\n  sleep: [0, 0.001, 0.002]\n  tags: [nothing]")
    planned = points(cm("plan", "experiment", "--sweep=sweep.yaml", "--json").ok())
    found = [tuple(p["values"][name] for name in ("size", "sleep", "threads")) for p in planned]
    assert found == [(1, 0, 1), (1, 0, 2), (2, 0.001, 1), (2, 0.001, 2), (4, 0.002, 1)]


def test_preparing_ends_before_what_is_measured_below_the_script(
    cm: Cm, counted: Counted, world: Path
) -> None:
    wrapped = """
    request: {tags: "run,nothing", env: {CM_THREADS: 1}}
    axes: {env.CM_SIZE: [1, 2]}
    record: {rate: env.CM_RATE}
    """
    (world / "sweep.yaml").write_text(wrapped, encoding="utf-8")
    found = points(cm(*RUN, "--json").ok())
    assert [point["status"] for point in found] == ["measured"] * 2
    assert counted() == ["prepared", "1,1", "2,1"]


def test_a_figure_that_no_run_gives_is_a_failed_point(cm: Cm, world: Path) -> None:
    change(world, "rate: env.CM_RATE", "rate: env.CM_RAT")
    found = points(cm(*RUN, "--json"))
    assert {point["code"] for point in found} == {"no-figure"}
    assert os.path.isfile(found[0]["record"])
