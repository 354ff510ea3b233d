"""Tokens through the real LoadGen: what it counts, and what it calls VALID without reason."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rouge_score import rouge_scorer

import benchmark_lab as lab
import token_lab
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.benchmarks import rouge
from mlperf.harness.measuring import detail_log
from mlperf.harness.measuring.verdict import LoadGenVerdict, judge
from mlperf.harness.reporting.results import Results

SCRIPT = """
import sys
import mlperf_loadgen as loadgen
import numpy
key, scenario, first, tokens, folder = sys.argv[1:]
settings = loadgen.TestSettings()
with open(folder + "/user.conf", "w") as file:
    file.write("*.*.min_duration = 1\\n*.*.target_qps = 5000\\n*.*.target_latency = 60000\\n"
               "*.*.min_query_count = 700\\n*.*.performance_sample_count_override = 8\\n")
settings.FromConfig(folder + "/user.conf", key, scenario)
settings.scenario = getattr(loadgen.TestScenario, scenario)
settings.mode = loadgen.TestMode.PerformanceOnly
answer = numpy.ones(9, numpy.int64)
at = answer.ctypes.data

def issue(ids, indices):
    if first == "yes":
        loadgen.FirstTokenComplete([loadgen.QuerySampleResponse(i, at, 8) for i in ids])
    whole = [loadgen.QuerySampleResponse(i, at, 72, int(tokens)) for i in ids]
    loadgen.QuerySamplesComplete(whole)

log, output = loadgen.LogSettings(), loadgen.LogOutputSettings()
output.outdir, output.copy_summary_to_stdout = folder, False
log.log_output, log.enable_trace = output, False
sut = loadgen.ConstructFastSUT(issue, lambda: None)
samples = loadgen.ConstructQSL(8, 8, lambda _: None, lambda _: None)
loadgen.StartTestWithLogSettings(sut, samples, settings, log, folder + "/none")
loadgen.DestroyQSL(samples)
loadgen.DestroyFastSUT(sut)
"""


def plain(folder: Path, key: str, scenario: str, first: str, tokens: int) -> int:
    """A run of LoadGen alone, in a process of its own; the answer is its exit status."""
    words = [key, scenario, first, str(tokens), str(folder)]
    return subprocess.run([sys.executable, "-c", SCRIPT, *words], check=False).returncode


def of_log(folder: Path) -> detail_log.DetailLog:
    return detail_log.read(folder / "mlperf_log_detail.txt")


def valid_log(folder: Path, first: str, tokens: int) -> detail_log.DetailLog:
    """Return the log of a Server run that LoadGen calls VALID; a loaded host may need several."""
    for attempt in range(5):
        run = folder / str(attempt)
        run.mkdir()
        assert plain(run, "llama3_1-8b", "Server", first, tokens) == 0
        if (log := of_log(run)).validity == "VALID":
            return log
    pytest.fail((run / "mlperf_log_summary.txt").read_text(encoding="utf-8"))


def test_without_a_first_token_a_stream_is_ended_by_a_signal(tmp_path: Path) -> None:
    assert plain(tmp_path, "llama3_1-8b-edge", "SingleStream", "no", 9) == -signal.SIGSEGV


def broken_rules(log: detail_log.DetailLog) -> list[str]:
    verdict = judge(log, catalog.SERVER, "6.1")
    assert not verdict.valid
    return [fault.rule for fault in verdict.faults]


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_server_run_that_loadgen_calls_valid_without_tokens_is_none(
    tokens: int, tmp_path: Path
) -> None:
    # One line for all of the samples that it befell.
    faults = broken_rules(valid_log(tmp_path, "yes", tokens))
    assert sorted(faults) == ["counted tokens", "no errors"]


def test_a_server_run_without_first_tokens_is_never_valid(tmp_path: Path) -> None:
    """Without a first token LoadGen's own verdict differs from process to process."""
    assert plain(tmp_path, "llama3_1-8b", "Server", "no", 9) == 0
    log = of_log(tmp_path)
    assert broken_rules(log).count("no errors") == 1
    untimed = {**log.values, "result_validity": "VALID", "result_first_token_max_latency_ns": 0}
    assert broken_rules(replace(log, values=untimed)).count("timed tokens") == 1


def test_two_tokens_are_enough(tmp_path: Path) -> None:
    assert judge(valid_log(tmp_path, "yes", 2), catalog.SERVER, "6.1") == LoadGenVerdict(True, ())


RULES = """
import sys
import mlperf_loadgen as loadgen
open(sys.argv[1], "w").close()
for key, scenario in (pair.split("/") for pair in sys.argv[2:]):
    settings = loadgen.TestSettings()
    settings.FromConfig(sys.argv[1], key, scenario)
    print(settings.use_token_latencies, settings.ttft_latency, settings.tpot_latency,
          settings.performance_sample_count_override)
"""


def built_in(folder: Path, *pairs: str) -> list[str]:
    words = [sys.executable, "-c", RULES, str(folder / "user.conf"), *pairs]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def test_loadgen_reads_its_rules_once_in_a_process(tmp_path: Path) -> None:
    first, second = built_in(tmp_path, "llama3_1-8b/Server", "llama3_1-8b/Server")
    assert first == "True 2000000000 100000000 13368"
    assert second.split()[0] == "False"


@pytest.mark.parametrize("scenario", [catalog.SERVER, catalog.INTERACTIVE])
@pytest.mark.parametrize("name", ["llama3.1-8b", "llama2-70b-99", "llama3.1-405b"])
def test_the_catalogue_has_the_limits_of_loadgen(
    name: str, scenario: catalog.Scenario, tmp_path: Path
) -> None:
    spec = catalog.benchmark(name)
    limit = spec.limits[scenario]
    assert limit.ttft_ms is not None
    assert limit.tpot_ms is not None
    (rules,) = built_in(tmp_path, f"{scenario.loadgen_key(spec.loadgen_key)}/{scenario.loadgen}")
    assert rules.split()[:3] == ["True", f"{limit.ttft_ms:.0f}000000", f"{limit.tpot_ms:.0f}000000"]


# ---- through the harness


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_lab.plugins(tmp_path_factory.mktemp("plugins") / "own")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_lab.dataset(tmp_path_factory.mktemp("data") / "letters")


def run_once(
    folder: Path, plugins: Path, data: Path, acts: str = "", **changes: Any
) -> subprocess.CompletedProcess[str]:
    """One LoadGen run of the harness, of few queries."""
    settings = {
        "benchmark": "llama3.1-8b",
        "backend": "scripted",
        "device": "cpu",
        "model": token_lab.model(folder, acts),
        "dataset": str(data),
        "scenario": "Server",
        "mode": "performance",
        "style": "test",
        "shape": {"workers": 4, "threads": 1, "batch": 2},
        "targets": {"qps": 2000.0, "latency_ms": 0.05, "min_duration_ms": 1},
        "overrides": {"min_query_count": 700},
        "folder": str(folder),
        **changes,
    }
    config = folder / "run.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    env = {**os.environ, **lab.harness_environment(), "CM_MLPERF_PLUGINS": str(plugins)}
    command = lab.harness_command("run", config)
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


STREAM = {"benchmark": "llama3.1-8b-edge", "scenario": "SingleStream"}


@pytest.mark.parametrize(
    ("acts", "text"),
    [
        ("no token", "was answered with 0 tokens, and 2 to 24 are needed"),
        ("one token", "was answered with 1 token, and 2 to 24 are needed"),
        ("too many", "was answered with 99 tokens, and 2 to 24 are needed"),
        ("dies half way", "the engine has died half way"),
        ("is silent", "an answer ended before its first token came"),
        ("begins twice", "the first token of an answer came twice"),
        ("forgets", "answers did not come to their end"),
    ],
)
def test_what_an_engine_does_wrong_ends_a_stream_with_words_and_no_signal(
    acts: str, text: str, tmp_path: Path, plugins: Path, data: Path
) -> None:
    done = run_once(tmp_path, plugins, data, acts, **STREAM)
    assert done.returncode == 1
    assert text in done.stdout + done.stderr


def test_of_a_benchmark_that_loadgen_lacks_tokens_are_timed_too(
    tmp_path: Path, plugins: Path, data: Path
) -> None:
    done = run_once(tmp_path, plugins, data, benchmark="new-words", scenario="Interactive")
    assert done.returncode == 0, done.stderr
    log = of_log(tmp_path / "run_1")
    assert log.values["requested_use_token_latencies"] is True
    assert log.number("result_first_token_99.00_percentile_latency_ns")
    assert judge(log, catalog.INTERACTIVE, "6.1").valid


@pytest.mark.parametrize("benchmark", ["llama3.1-8b", "new-words"])
def test_interactive_is_held_to_limits_of_its_own(
    benchmark: str, tmp_path: Path, plugins: Path, data: Path
) -> None:
    """Six tokens in 0.2 s are in time for the TPOT of Server, and not for that of Interactive."""
    few = {"overrides": {"min_query_count": 4}, "shape": {"workers": 4, "threads": 1, "batch": 1}}
    done = run_once(
        tmp_path, plugins, data, "is slow", benchmark=benchmark, scenario="Interactive", **few
    )
    assert done.returncode == 0, done.stderr
    (fault,) = (
        fault
        for fault in judge(of_log(tmp_path / "run_1"), catalog.INTERACTIVE, "6.1").faults
        if "latency" in fault.rule
    )
    assert fault.rule == "p99 token latency"
    assert "p99 TPOT" in fault.text
    assert "--server_target_qps" in fault.advice


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, plugins: Path, data: Path) -> Results:
    folder = tmp_path_factory.mktemp("session")
    model = token_lab.model(folder)
    prompts = json.loads((data / "references.json").read_text())
    oracle = [token_lab.answer(number) for number in range(len(prompts))]
    oracle[0] = oracle[0][::-1]
    np.savez(folder / "oracle.npz", tokens=np.concatenate(oracle), offsets=token_lab.ends(oracle))
    model["options"]["oracle"] = "oracle.npz"
    settings = lab.settings(
        folder / "results",
        benchmark="llama3.1-8b",
        backend="scripted",
        model=model,
        dataset=str(data),
        scenarios=["Interactive", "Offline"],
        modes=["performance", "accuracy", "compliance"],
        overrides={"server_target_qps": 2000, "num_workers": 2, "batch_size": 2},
    )
    config = folder / "session.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    env = {**os.environ, **lab.harness_environment(), "CM_MLPERF_PLUGINS": str(plugins)}
    command = lab.harness_command("session", config)
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (folder / "results").glob("*/*/*/results.json")
    return records.read(Results, path)


def test_results_are_in_tokens_with_the_latencies_of_tokens(session: Results) -> None:
    runs = {result.scenario: result.performance_run for result in session.results}
    assert set(runs) == {"Interactive", "Offline"}
    for scenario, run in runs.items():
        assert run is not None
        assert (run.validity, run.unit) == ("VALID", "tokens/s")
        assert run.tokens is not None
        assert run.tokens.tokens_per_s == run.value
        assert run.tokens.tokens_per_s == pytest.approx(6 * (run.tokens.samples_per_s or 0), 0.02)
        assert ("99.90" in run.tokens.ttft_ms) == (scenario != "Offline")
        assert ("99.90" in run.tokens.tpot_ms) == (scenario != "Offline")
    limits = {name: run.tokens.ttft_limit_ms for name, run in runs.items() if run and run.tokens}
    assert limits == {"Interactive": 500, "Offline": None}


def test_answers_are_counted_and_compared_with_the_reference(session: Results) -> None:
    for result in session.results:
        figure = result.accuracy_run
        assert figure is not None
        assert figure.oracle == (token_lab.COUNT - 1, token_lab.COUNT)
        log = Path(figure.log_dir) / "accuracy.txt"
        assert f"'gen_num': {token_lab.COUNT}" in log.read_text()
        for benchmark in ("llama3.1-8b", "llama2-70b-99"):
            for target in catalog.benchmark(benchmark).accuracy:
                assert target.metric.find(log.read_text()) is not None, target
        (test,) = result.compliance
        assert (test.test, test.passed) == ("TEST06", True)
        shown = "Skipped" if result.scenario == "Offline" else "True"
        assert f"First token check pass: {shown}" in test.lines


def test_table_and_page_show_the_tokens(session: Results) -> None:
    folder = Path(session.folder)
    text = (folder / "summary.txt").read_text()
    assert "TTFT p50" in text
    assert not re.search(r"^Offline .* - +- +-", text, re.MULTILINE), "a row without a figure"
    assert re.search(r"^Offline: \S+ samples/s$", text, re.MULTILINE), text
    assert "119 of 120 answers equal those of the reference implementation" in text
    lines = [line for line in text.splitlines() if not line.startswith("report:")]
    assert max(map(len, lines)) <= 80
    page = (folder / "report.html").read_text()
    assert "Time to the first token" in page
    assert "TPOT p50" in page


def test_rouge_lsum_takes_sentences_singly() -> None:
    theirs = rouge_scorer.RougeScorer(["rougeLsum"], use_stemmer=True)
    expected = theirs.score("The cat sat.\nIt rained.", "It rained.\nA cat sat there.")
    found = rouge.scores(
        "The cat sat. It rained.", "It rained. A cat sat there.", rouge.WITH_SENTENCES
    )
    assert found[3] == expected["rougeLsum"].fmeasure
