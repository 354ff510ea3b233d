"""Results of CM and MLC, and bare logs of LoadGen, made into trees; the runs are real."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import submission_lab as lab
from mlperf.submission import build, category, intake, runs, steps, texts
from mlperf.submission.errors import SubmissionError
from mlperf.submission.sources import BenchmarkRun, ScenarioSources

SYSTEM = "box-reference-cpu-onnxruntime-v1.20-default_config"
LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")
DESCRIBED = dict.fromkeys(build.MEASUREMENT_KEYS, "fp32")
EDGE = ("SingleStream", "MultiStream", "Offline")


def scenarios(measured: Path) -> dict[str, Path]:
    found = sorted(path.parent for path in measured.glob("*/*/*/*/performance"))
    return {path.name: path for path in found}


def logs_of(source: Path, target: Path, *more: str) -> Path:
    target.mkdir(parents=True)
    for name in (*LOGS, *more):
        shutil.copy(source / name, target)
    return target


@pytest.fixture
def upstream(measured: Path, tmp_path: Path) -> Path:
    """What MLC leaves: no file of ours, documents beside the logs of each performance run."""
    system = tmp_path / "upstream" / "valid_results" / SYSTEM
    for name, source in scenarios(measured).items():
        place = system / "resnet50" / name
        run = logs_of(source / "performance/run_1", place / "performance/run_1")
        answers = ("mlperf_log_accuracy.json", "accuracy.txt")
        logs_of(source / "accuracy", place / "accuracy", *answers)
        lab.put(run / "measurements.json", json.dumps(DESCRIBED))
        lab.put(run / "user.conf", "*.*.min_duration = 300\n")
        lab.put(run / "README.md", "# run\n\nmlcr run --model=/home/ann/models/resnet50.onnx\n")
    meta = {"division": "open", "system_type": "edge", "cooling": "air", "host_networking": ""}
    lab.put(system / "system_meta.json", json.dumps({**meta, "host_memory_capacity": "undefined"}))
    sut = {"implementation": "reference", "framework": "onnxruntime", "framework_version": "v1.20"}
    lab.put(system / "mlc-sut-info.json", json.dumps({**sut, "device": "cpu"}))
    host = {"mlc_repo_name": "mlcommons@mlperf-automations", "mlc_repo_git_hash": "22db961"}
    lab.put(system / "mlc-host-info.json", json.dumps(host))
    return tmp_path / "upstream"


@pytest.fixture
def request_(upstream: Path, tmp_path: Path) -> steps.TreeRequest:
    return steps.TreeRequest(upstream, tmp_path / "out", "Tester")


def test_the_settings_are_those_of_the_performance_run(
    request_: steps.TreeRequest, upstream: Path
) -> None:
    """The harness writes them beside run_1, and others for its accuracy run."""
    for run in upstream.rglob("run_1"):
        (run / "user.conf").rename(run.parent / "user.conf")
        lab.put(run.parents[1] / "accuracy" / "user.conf", "*.*.min_duration = 7\n")
    steps.generate(request_)
    root = request_.submission_dir / "open/Tester"
    written = [path.read_text() for path in root.rglob("user.conf")]
    assert set(written) == {"*.*.min_duration = 300\n"}


def test_results_of_mlc_become_a_tree(request_: steps.TreeRequest) -> None:
    answer = steps.generate(request_)
    root = request_.submission_dir / "open/Tester"
    assert {each.rule for each in answer.verdict.faults} == set()
    cell = root / "results" / SYSTEM / "resnet" / "Offline"
    assert json.loads((cell / "measurements.json").read_text()) == DESCRIBED
    assert (cell / "user.conf").read_text() == "*.*.min_duration = 300\n"
    assert "ann" not in (cell / "README.md").read_text()
    described = json.loads((root / "systems" / f"{SYSTEM}.json").read_text())
    assert (described["cooling"], described["accelerators_per_node"]) == ("air", "0")
    assert described["framework"] == "onnxruntime v1.20"
    assert described["host_memory_capacity"] == described["host_networking"] == "N/A"
    assert "`22db961`" in (root / "src/resnet/README.md").read_text()
    (system,) = answer.data["systems"].values()
    assert system["system_type"] == ["edge", "results"]
    assert "the code of resnet is only named" in " ".join(answer.data["notes"])


@pytest.mark.parametrize("below", [".", "valid_results", f"valid_results/{SYSTEM}"])
def test_any_folder_above_the_runs_may_be_given(request_: steps.TreeRequest, below: str) -> None:
    found = runs.collect(request_.results_dir / below)
    (run,) = found.runs
    assert (run.sut, run.benchmark, run.device) == (SYSTEM, "resnet50", "cpu")
    assert sorted(run.scenarios) == ["Offline", "SingleStream"]


def test_the_users_own_code_and_hash(request_: steps.TreeRequest, tmp_path: Path) -> None:
    for name in (".git/config", "main.py", "lib/model.py", "lib/__pycache__/model.pyc"):
        lab.put(tmp_path / "mine" / name, "x\n")
    text = next(request_.results_dir.rglob("offline/accuracy/accuracy.txt"))
    text.write_text(text.read_text().partition("hash=")[0])
    answer = steps.generate(replace(request_, handed=intake.RunOverrides(code=tmp_path / "mine")))
    root = request_.submission_dir / "open/Tester"
    code = {p.relative_to(root).as_posix() for p in (root / "src").rglob("*") if p.is_file()}
    assert code == {"src/resnet/main.py", "src/resnet/lib/model.py"}
    assert "accuracy.hash" not in {each.rule for each in answer.verdict.faults}


def test_what_makes_foreign_runs_again_is_no_command_of_ours(request_: steps.TreeRequest) -> None:
    shutil.rmtree(next(request_.results_dir.rglob("offline/accuracy")))
    answer = steps.generate(request_)
    (first, *_) = [each for each in answer.verdict.faults if each.rule == "accuracy.files"]
    assert "with the program that made it" in first.mend
    assert "cm run script" not in first.mend


@pytest.fixture
def bare(measured: Path, tmp_path: Path) -> Path:
    """Logs as a reference implementation leaves them, each run in a flat folder."""
    source = scenarios(measured)["offline"]
    logs_of(source / "performance/run_1", tmp_path / "logs" / "fast")
    logs_of(source / "accuracy", tmp_path / "logs" / "right", "mlperf_log_accuracy.json")
    return tmp_path / "logs"


def handed(folder: Path) -> intake.RunOverrides:
    lab.put(folder / "model.json", json.dumps(DESCRIBED))
    return intake.RunOverrides(
        "box", "resnet50", division="open", measurements=folder / "model.json"
    )


def test_what_bare_logs_do_not_tell_is_one_error(bare: Path) -> None:
    with pytest.raises(SubmissionError) as raised:
        runs.collect(bare)
    for option in ("--system=", "--model=", "--division=", "--measurements="):
        assert str(raised.value).count(option) == 1
    assert raised.value.code == "needs-input"
    for option in ("--round=", "--scenario="):
        assert option not in str(raised.value)


def test_all_options_that_are_missing_are_one_error(bare: Path, tmp_path: Path) -> None:
    known = intake.RunOverrides("box", "whisper", division="open")
    request = steps.TreeRequest(bare, tmp_path / "out", "", division="open", handed=known)
    with pytest.raises(SubmissionError) as raised:
        steps.generate(request)
    for option in ("--measurements=FILE", "--submitter=NAME", "--category="):
        assert str(raised.value).count(option) == 1
    assert raised.value.code == "needs-input"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('"pid": 23352, "tid": 1, "ts": 3493ns : LoadgenVersionInfo:', "a log of LoadGen 0.5"),
        (':::ENDPTS {"key": "loadgen_version", "value": "6.1"}', "MLCommons' endpoints harness"),
    ],
)
def test_a_log_of_another_program_is_left_out(tmp_path: Path, line: str, what: str) -> None:
    log = tmp_path / "logs/offline/performance/run_1/mlperf_log_detail.txt"
    lab.put(log, f"{line}\n")
    with pytest.raises(SubmissionError, match="no finished results") as raised:
        runs.collect(tmp_path / "logs")
    assert f"offline/performance/run_1/{log.name} is left out: it is" in str(raised.value)
    assert what in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("mlperf_log_detail.txt", "", "is left out: it is empty"),
        (
            "mlperf_log_detail.txt",
            "<html>",
            "is left out: it is no detailed log of",
        ),
        (
            "mlperf_log_detail.txt",
            ':::MLLOG {"key": "cache_clear", "value": true, "metadata": {"lineno": 1}}',
            "is left out: it is no detailed log of LoadGen: it begins with ':::MLLOG",
        ),
        ("mlperf_log_detail.txt.gz", "x", "is left out: it is packed: gunzip"),
        ("mlperf_log_summary.txt", "Result is : VALID", "is left out: it is a summary alone"),
    ],
)
def test_a_log_that_no_run_can_be_read_from_is_left_out(
    tmp_path: Path, name: str, content: str, what: str
) -> None:
    lab.put(tmp_path / "logs/offline/performance/run_1" / name, content)
    with pytest.raises(SubmissionError, match="no finished results") as raised:
        runs.collect(tmp_path / "logs")
    assert f"offline/performance/run_1/{name} {what}" in str(raised.value)


def test_bare_logs_become_a_tree(bare: Path, tmp_path: Path) -> None:
    request = steps.TreeRequest(bare, tmp_path / "out", "Tester", division="open")
    answer = steps.generate(replace(request, handed=handed(tmp_path)))
    notes = " ".join(answer.data["notes"])
    assert "fast: the performance run of Offline, as LoadGen logs it" in notes
    assert "right: the accuracy run of Offline" in notes
    cell = tmp_path / "out/open/Tester/results/box/resnet/Offline"
    assert "*.Offline.target_qps = " in (cell / "user.conf").read_text()
    assert "*.Offline.min_duration = 300" in (cell / "user.conf").read_text()
    assert "LoadGen" in (cell / "README.md").read_text()
    assert {each.rule for each in answer.verdict.faults} == {"system.field-number"}
    assert "accuracy.figure" in {each.rule for each in answer.verdict.warnings}
    assert "right has no accuracy.txt: put what the accuracy script" in notes


def test_two_runs_for_one_place(bare: Path, tmp_path: Path) -> None:
    shutil.copytree(bare / "fast", bare / "again")
    with pytest.raises(SubmissionError, match="again and fast are both a performance run"):
        runs.collect(bare, handed(tmp_path))


@pytest.mark.parametrize("inside", ["sub", "trees/v6.1", f"valid_results/{SYSTEM}/tree"])
def test_a_tree_among_the_results_is_no_result(upstream: Path, inside: str) -> None:
    request = steps.TreeRequest(upstream, upstream / inside, "Tester")
    first = steps.generate(request)
    again = steps.generate(request)
    assert again.data["results"] == first.data["results"]
    other = steps.generate(replace(request, submission_dir=upstream.parent / "out"))
    assert other.data["results"] == first.data["results"]


def test_trees_alone_are_no_results(tmp_path: Path) -> None:
    lab.make(tmp_path / "all" / "tree")
    with pytest.raises(SubmissionError, match="tree is left out: it is a submission tree"):
        runs.collect(tmp_path / "all")


def test_the_benchmark_by_the_size_of_its_data_set(tmp_path: Path) -> None:
    described = handed(tmp_path)
    example = lab.Example(round="5.1")
    lab.performance(tmp_path / "logs/a", "MultiStream", example, 50000)
    found = runs.collect(tmp_path / "logs", replace(described, benchmark=""))
    assert [run.benchmark for run in found.runs] == ["resnet50"]
    assert [run.round for run in found.runs] == ["5.1"]
    assert "only its data set has 50000 samples in v5.1" in " ".join(found.notes)
    lab.performance(tmp_path / "logs/b", "SingleStream", example, 10833)
    with pytest.raises(SubmissionError, match=r"10833 samples it is bert-99 or bert-99\.9"):
        runs.collect(tmp_path / "logs", replace(described, benchmark=""))


def test_interactive_is_what_the_path_or_the_person_says(tmp_path: Path) -> None:
    folder = tmp_path / "logs/box/llama2-70b-99/interactive/performance/run_1"
    lab.performance(folder, "Server", lab.Example(round="5.1"), 24576)
    (run,) = runs.collect(tmp_path / "logs", replace(handed(tmp_path), benchmark="")).runs
    assert (run.sut, run.benchmark, list(run.scenarios)) == (
        "box",
        "llama2-70b-99",
        ["Interactive"],
    )


def run_of(benchmark: str, *names: str) -> BenchmarkRun:
    home = Path("x")
    sources = ScenarioSources(home, home, home, {}, {})
    return BenchmarkRun("box", benchmark, "6.1", "", "", "", dict.fromkeys(names, sources), "", "")


@pytest.mark.parametrize(
    ("benchmark_round", "measured", "expected"),
    [
        ("6.1", [("bert-99", ("SingleStream", "Server", "Offline"))], "edge"),
        ("6.1", [("resnet50", (*EDGE, "Server"))], "datacenter,edge"),
        ("5.0", [("resnet50", (*EDGE, "Server"))], "datacenter,edge"),
        ("5.0", [("resnet50", ("Server", "Offline"))], "datacenter"),
        ("6.1", [("resnet50", ("SingleStream",))], "edge"),
        ("6.1", [("resnet50", EDGE), ("whisper", ("Offline",))], "edge"),
        ("6.1", [("resnet", EDGE), ("own-model", ("Offline",))], "edge"),
    ],
)
def test_a_category_that_nobody_tells(
    benchmark_round: str, measured: list[tuple[str, tuple[str, ...]]], expected: str
) -> None:
    made = [run_of(name, *names) for name, names in measured]
    settled = category.settle(made, benchmark_round, "closed", lambda run: "")
    assert {run.category for run in settled.runs} == {expected}
    assert any(f"box counts as {expected}" in note for note in settled.notes)


def test_a_scenario_that_the_inferred_category_does_not_have() -> None:
    made = [run_of("bert-99", "SingleStream", "Server", "Offline")]
    settled = category.settle(made, "6.1", "closed", lambda run: "")
    assert list(settled.runs[0].scenarios) == ["SingleStream", "Offline"]
    assert any("bert-99 Server is left out" in note for note in settled.notes)
    told = category.settle(made, "6.1", "closed", lambda run: "edge")
    assert len(told.runs[0].scenarios) == 3


def test_a_category_that_is_not_clear() -> None:
    with pytest.raises(SubmissionError, match=r"\(Offline\) do not tell its category") as raised:
        category.settle([run_of("whisper", "Offline")], "6.1", "open", lambda run: "")
    assert raised.value.hint == "give --category=edge or datacenter"


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("--model=/home/ann/m/x.onnx", "--model=x.onnx"),
        ("--results_dir=/data", "--results_dir=data"),
        ("--d=~/mlperf/results", "--d=results"),
        ("C:\\Users\\Ann\\x.onnx", "x.onnx"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("100 MB/s, 3/4 and/or tokens/s", "100 MB/s, 3/4 and/or tokens/s"),
    ],
)
def test_documents_hold_no_local_paths(told: str, shown: str) -> None:
    assert texts.without_places(told) == shown
