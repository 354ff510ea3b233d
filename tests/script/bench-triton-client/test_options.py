"""The command line: guide 003's as it stands, dashes of typesetting, and what makes no sense."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from common.problems import Problem
from serving.bench import perf_analyzer
from serving.bench.option_table import DASHES, ENDLESS
from serving.bench.options import OPTIONS, BenchSettings, load_points, read
from support import LIB, ROOT, python_env, run

META = yaml.safe_load((ROOT / "script/bench-triton-client/meta.yaml").read_text(encoding="utf-8"))
MODEL = "rn50-16neuroncores-default"
GUIDE = f"--model_name {MODEL} --batch_size 16 --benchmark --limit 30 --num_threads 2"


def asked(line: str) -> BenchSettings:
    return read(shlex.split(line))[0]


def test_the_line_of_the_guide_is_understood() -> None:
    found = asked(GUIDE)
    assert (found.model, found.batch) == ("rn50-16neuroncores-default", 16)
    assert (found.benchmark, found.seconds, found.loads) == (True, 30, (2.0,))
    assert (found.url, found.open_loop) == ("localhost:8000", False)
    assert asked("-m rn50-16neuroncores-default -b 16 -k -l 30 -t 2") == found
    assert asked("-m m -b 4 -t 1").seconds == 60


@given(st.text(DASHES + "-", min_size=1, max_size=3).filter(lambda t: set(t) & set(DASHES)))
def test_dashes_of_typesetting_are_understood_and_named(dashes: str) -> None:
    words = [f"{dashes}benchmark", f"{dashes}m", "x", f"{dashes}limit=5"]
    found, notes = read(words)
    assert (found.benchmark, found.model, found.seconds) == (True, "x", 5)
    assert len(notes) == 3
    assert notes[0] == f"{dashes}benchmark has a typographic dash; it is read as --benchmark"


def test_values_are_left_as_they_are() -> None:
    found, notes = read(["-m", "x", "--header", "X: --a\u2013b", "--shape", "i:1,2"])
    assert found.headers == (("X", "--a\u2013b"),)
    assert found.shapes == {"i": (1, 2)}
    assert not notes


@pytest.mark.parametrize(
    ("flag", "ours"),
    [
        ("--concurrency-range 1:4", "--concurrency here: Requests in flight"),
        ("--request-rate-range=10:100", "--rate here"),
        ("-p 5000", "--duration here"),
        ("-p5000", "--duration here"),
        ("-s 30", "--until_stable here"),
        ("--latency-threshold 10", "--search_p99_ms here"),
        ("-u localhost:8000", "--url here"),
        ("-i grpc", "--protocol here"),
        ("-f x.csv", "--csv here"),
        ("--streaming", "streams and sequences"),
        ("--concurency 4", "did you mean --concurrency?"),
    ],
)
def test_what_perf_analyzer_calls_otherwise_is_named(flag: str, ours: str) -> None:
    with pytest.raises(Problem) as caught:
        asked(f"-m x {flag}")
    assert ours in caught.value.hint


def test_names_of_perf_analyzer_lead_to_options_and_are_none_themselves() -> None:
    own = {option.name for option in OPTIONS} | {option.short for option in OPTIONS}
    assert set(perf_analyzer.NAMES) <= own
    theirs = [name for names in perf_analyzer.NAMES.values() for name in names.split()]
    assert len(theirs) == len(set(theirs))
    assert not own & set(theirs)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "no model"),
        ("-m x --limitt 5", "did you mean --limit?"),
        ("-m x --limit 0", "not a time"),
        ("-m x --limit soon", "not a number"),
        ("-m x --limit nan", "at least"),
        ("-m x -b 0", "at least 1"),
        ("-m x -b 1.5", "not a whole number"),
        ("-m x --protocol ftp", "none of http, grpc"),
        ("-m x --rate 5 -t 2", "contradict"),
        ("-m x --rate 0", "at least"),
        ("-m x --concurrency 4:1", "ascending"),
        ("-m x --concurrency 1:2:3:4", "FIRST:LAST:STEP"),
        ("-m x --concurrency 1:2:0", "at least"),
        ("-m x --shape i", "INPUT:D1,D2"),
        ("-m x --header a", "NAME:VALUE"),
        ("-m x --percentile 101", "at most 100"),
        ("-m x --count 5 --until_stable", "contradict"),
        ("-m x --search_p99_ms 5 --rate 3", "contradict"),
        ("-m x --search_p99_ms 0", "not above 0"),
        ("-m x --until_stable 0.0", "not above 0"),
        ("-m x --rate 1e9", "at most 1e+06"),
        ("-m x --rate 1:1e9:1e8", "at most 1e+06"),
        ("-m x -k --distribution burst", "without --rate or --search_p99_ms"),
        ("-m x -k --connections 4", "without --rate"),
        ("-m x --rate 5 --burst_size 3", "without --distribution"),
        ("-m x --rate 5 --distribution poisson --burst_size 3", "distribution=burst"),
        ("-m x -k --window 2", "without --until_stable"),
        ("-m x --tolerance 1", "without --golden"),
        ("-m x y", "is not an option"),
        ("-m", "expected one argument"),
    ],
)
def test_what_makes_no_sense_is_one_message(line: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        read(shlex.split(line))
    assert words in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("4", [4]),
        ("1,2,8", [1, 2, 8]),
        ("1:4", [1, 2, 3, 4]),
        ("10:30:10", [10, 20, 30]),
        ("10:35:10", [10, 20, 30]),
    ],
)
def test_loads_are_numbers_lists_and_ranges(text: str, points: list[float]) -> None:
    assert load_points(text, "rate", whole=False) == points


def test_time_ends_a_measurement_unless_something_else_does() -> None:
    assert asked("-m x --count 10").seconds == ENDLESS
    assert asked("-m x --until_stable").stable_percent == 10
    assert asked("-m x --count 10 -l 5").seconds == 5
    assert asked("-m x --duration 7").benchmark
    assert asked("-m x --protocol grpc").url == "localhost:8001"
    assert (asked("-m x --warmup 2.5s").warmup_seconds, asked("-m x").warmup_requests) == (2.5, 1)


def test_the_script_has_an_input_for_every_option() -> None:
    inputs = {option.name for option in OPTIONS} | {"install_dir", "model_repository", "python"}
    assert set(META["input_mapping"]) == set(META["input_description"]) == inputs
    for option in OPTIONS:
        described = META["input_description"][option.name]
        assert described.get("choices", []) == list(option.choices)
        assert str(described.get("default", "")) == option.default


def test_the_script_explains_the_names_of_perf_analyzer_as_the_program_does() -> None:
    names = " ".join([*perf_analyzer.NAMES.values(), perf_analyzer.NOT_HERE]).split()
    assert set(META["foreign_flags"]) == set(names)
    for name in names:
        with pytest.raises(Problem) as caught:
            read([f"--{name}=1"])
        assert META["foreign_flags"][name]["instead"] == caught.value.hint


def test_the_script_repeats_what_the_program_repeats() -> None:
    repeats = {name for name, spec in META["input_description"].items() if spec.get("repeats")}
    assert repeats == {option.name for option in OPTIONS if option.repeats}


def test_modules_of_the_folder_of_the_user_are_not_imported(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_bytes(b"--help\0")
    for name in ("json.py", "runpy.py"):
        (tmp_path / name).write_text("raise SystemExit('of the user')\n")
    env = python_env(LIB) | {
        "CM_PYTHON_BIN_WITH_PATH": sys.executable,
        "CM_TRITON_BENCH_MODULE": "serving.bench",
        "CM_TRITON_BENCH_ARGUMENTS": str(words),
    }

    program = ROOT / "script/bench-triton-client/measure.sh"
    result = run(["bash", str(program)], cwd=tmp_path, env=env).ok()

    assert "-m NAME" in result.stdout
