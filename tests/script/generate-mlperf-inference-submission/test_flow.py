"""From genuine short runs to a tree, its report, its archive; all again with the same bytes."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import submission_lab as lab
from cmbench.lib import nvidia
from cmbench.lib.probe import ProbeResult
from mlperf.submission import build, infer, machine, pack, runs, steps, truncate
from mlperf.submission.errors import SubmissionError
from mlperf.submission.fields import SystemField
from support import ROOT, python_env


@pytest.fixture
def request_(measured: Path, tmp_path: Path) -> steps.TreeRequest:
    return steps.TreeRequest(measured, tmp_path / "out", "Tester")


def everything(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_short_tiny_runs_get_an_honest_verdict(request_: steps.TreeRequest) -> None:
    answer = steps.generate(request_)
    assert answer.verdict.faults == ()
    assert not answer.verdict.submittable
    assert "flow complete; not submittable because" in answer.verdict.line
    assert "tiny form" in answer.verdict.line
    assert "shorter than the 600 s" in answer.verdict.line
    cell = request_.submission_dir / "open/Tester/results"
    assert len(list(cell.glob("*/resnet/*/performance/run_1/mlperf_log_detail.txt"))) == 2
    described = json.loads(next(cell.glob("*/resnet/Offline/measurements.json")).read_text())
    assert described["weight_data_types"] == "fp32"


def test_the_same_bytes_again(request_: steps.TreeRequest) -> None:
    steps.generate(request_)
    first = everything(request_.submission_dir)
    for clean in (False, True):
        steps.generate(replace(request_, clean=clean))
        assert everything(request_.submission_dir) == first


def test_the_report_reports_the_results(request_: steps.TreeRequest) -> None:
    answer = steps.generate(request_)
    folder = steps.report_folder(request_.submission_dir)
    rows = list(csv.DictReader((folder / "summary.csv").open(encoding="utf-8")))
    assert [row["scenario"] for row in rows] == ["Offline", "SingleStream"]
    assert float(rows[0]["value"]) == answer.data["results"][0]["value"] > 0
    assert float(rows[0]["accuracy"]) > 97
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "not submittable" in page
    assert page.count("<svg") == 3
    readme = (request_.submission_dir / "open/Tester/README.md").read_text(encoding="utf-8")
    assert "| resnet (tiny form) | Offline |" in readme


def test_logs_are_truncated_and_their_hashes_kept(
    measured: Path, request_: steps.TreeRequest
) -> None:
    steps.generate(request_)
    whole = next(measured.rglob("offline/accuracy/mlperf_log_accuracy.json"))
    folder = next(request_.submission_dir.rglob("Offline/accuracy"))
    cut = folder / "mlperf_log_accuracy.json"
    assert whole.stat().st_size > truncate.LIMIT >= cut.stat().st_size
    assert truncate.stated_hash(folder) == hashlib.sha256(whole.read_bytes()).hexdigest()
    assert truncate.truncate(folder) is None
    kept = steps.generate(replace(request_, truncated=False))
    assert "accuracy.truncated" in {each.rule for each in kept.verdict.faults}


def test_other_systems_in_the_tree_stay_unless_it_is_cleaned(request_: steps.TreeRequest) -> None:
    steps.generate(request_)
    other = request_.submission_dir / "closed/Other/README.md"
    lab.put(other, "# Other\n")
    steps.generate(request_)
    assert other.exists()
    steps.generate(replace(request_, clean=True))
    assert not other.exists()


@pytest.mark.parametrize("name", ["photos/a.jpg", "notes.txt"])
def test_a_folder_of_other_things_is_never_replaced(request_: steps.TreeRequest, name: str) -> None:
    lab.put(request_.submission_dir / name, "mine")
    with pytest.raises(SubmissionError, match="is not a submission tree"):
        steps.generate(replace(request_, clean=True))
    assert (request_.submission_dir / name).read_text() == "mine"


@pytest.mark.parametrize("submitter", ["two words", "../up", ".hidden", "a/b"])
def test_names_that_no_tree_can_hold(request_: steps.TreeRequest, submitter: str) -> None:
    with pytest.raises(SubmissionError, match="must be the name of a folder"):
        steps.generate(replace(request_, submitter=submitter))


def test_what_is_missing_is_said(request_: steps.TreeRequest, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="no submitter is named"):
        steps.generate(replace(request_, submitter=""))
    with pytest.raises(SubmissionError, match="there is no folder"):
        steps.generate(replace(request_, results_dir=tmp_path / "none"))
    with pytest.raises(SubmissionError, match="no finished results"):
        steps.generate(replace(request_, results_dir=tmp_path))
    with pytest.raises(SubmissionError, match="no results for the device cuda"):
        steps.generate(replace(request_, device="cuda"))
    with pytest.raises(SubmissionError, match="no round 9"):
        steps.generate(replace(request_, round="9"))


def test_every_field_has_its_origin(request_: steps.TreeRequest, tmp_path: Path) -> None:
    told = tmp_path / "machine.yaml"
    told.write_text("cooling: air\nhost_memory_configuration: 4 x 8 GB\n", encoding="utf-8")
    request = replace(
        request_, system_file=told, fields={"status": "preview"}, hw_notes_extra="taken by me"
    )
    answer = steps.generate(request)
    (system,) = answer.data["systems"].values()
    assert system["cooling"] == ["air", "machine.yaml"]
    assert system["status"] == ["preview", "option"]
    assert system["hw_notes"] == ["taken by me", "option"]
    assert system["framework"][1] == "results"
    (document,) = (request.submission_dir / "open/Tester/systems").glob("*.json")
    assert json.loads(document.read_text())["cooling"] == "air"


def test_what_nobody_knows_is_a_question(request_: steps.TreeRequest) -> None:
    answer = steps.generate(request_)
    (questions,) = answer.data["questions"].values()
    assert "cooling" in questions
    assert "  cooling: air, liquid or passive" in answer.lines


def test_answers_are_asked_once(measured: Path, request_: steps.TreeRequest) -> None:
    asked: list[str] = []

    def ask(field: SystemField) -> str:
        asked.append(field.name)
        return "air" if field.name == "cooling" else ""

    try:
        answer = steps.generate(request_, ask)
        (system,) = answer.data["systems"].values()
        assert "cooling" in asked
        assert system["cooling"] == ["air", "answer"]
        again = steps.generate(request_)
        (system,) = again.data["systems"].values()
        assert system["cooling"] == ["air", steps.ANSWERS]
    finally:
        for kept in measured.rglob(steps.ANSWERS):
            kept.unlink()


def test_an_unknown_field_is_refused(request_: steps.TreeRequest, tmp_path: Path) -> None:
    told = tmp_path / "machine.yaml"
    told.write_text("colling: air\n", encoding="utf-8")
    with pytest.raises(SubmissionError, match="no system description has the field 'colling'"):
        steps.generate(replace(request_, system_file=told))


def test_an_older_round_has_its_own_layout(request_: steps.TreeRequest) -> None:
    answer = steps.generate(replace(request_, round="4.1"))
    root = request_.submission_dir / "open/Tester"
    assert (root / "code/resnet/README.md").is_file()
    (conf,) = root.glob("measurements/*/resnet/Offline/mlperf.conf")
    assert conf.stat().st_size
    # The runs carry the seeds of 6.1.
    assert {each.rule for each in answer.verdict.faults} == {"performance.seeds", "accuracy.seeds"}


def test_missing_scenarios_are_inferred(tmp_path: Path) -> None:
    example = lab.Example(scenarios=("SingleStream",))
    tree = lab.make(tmp_path / "tree", example)
    added = build.edit(
        tree.root, lambda folder: infer.fill(lab.SubmissionTree(folder, tree.layout))
    )
    assert [each.split(": ")[1] for each in added] == [
        "MultiStream inferred from SingleStream",
        "Offline inferred from SingleStream",
    ]
    answer = steps.check(tree.root, "", "")
    assert answer.verdict.submittable
    assert {each.rule for each in answer.verdict.notices} == {"performance.inferred"}
    assert (
        build.edit(tree.root, lambda folder: infer.fill(lab.SubmissionTree(folder, tree.layout)))
        == []
    )


def test_an_archive_has_the_same_bytes_for_the_same_tree(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    names = pack.pack(tree.root, tmp_path / "a.tar.gz")
    time.sleep(0.02)
    pack.pack(tree.root, tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert archive.getnames() == names
    assert all(name.startswith("closed/Tester/") for name in names)
    with pytest.raises(SubmissionError, match="lies in the folder that it would hold"):
        pack.pack(tree.root, tree.root / "x.tar.gz")


def test_the_round_is_known_by_the_seeds(tmp_path: Path) -> None:
    for name in ("5.1", "6.0"):
        tree = lab.make(tmp_path / name, lab.Example(name))
        assert steps.round_of(tree.root) == name
        assert steps.check(tree.root, "", "").verdict.submittable


def test_killed_while_writing_leaves_the_old_tree(request_: steps.TreeRequest) -> None:
    steps.generate(request_)
    first = everything(request_.submission_dir)
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from mlperf.submission import build, steps, truncate\n"
        "def stop(root):\n"
        "    print('in the middle', flush=True)\n"
        "    time.sleep(60)\n"
        "truncate.truncate_all = stop\n"
        f"steps.generate(steps.TreeRequest(Path({str(request_.results_dir)!r}), "
        f"Path({str(request_.submission_dir)!r}), 'Tester', clean=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=python_env(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in the middle\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert everything(request_.submission_dir) == first
    assert list(request_.submission_dir.parent.glob(".out.*"))
    steps.generate(request_)
    assert everything(request_.submission_dir) == first
    assert not list(request_.submission_dir.parent.glob(".out.*"))


SOURCES = [str(ROOT / "lib"), str(ROOT / "automation")]


def test_unfinished_results_are_left_out(measured: Path, tmp_path: Path) -> None:
    copy = tmp_path / "results"
    shutil.copytree(measured, copy)
    next(copy.rglob("results.json")).write_text("{", encoding="utf-8")
    with pytest.raises(SubmissionError, match="is left out: cannot read"):
        runs.collect(copy)


def test_runs_of_another_configuration_are_not_submitted_as_one(
    measured: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "results"
    shutil.copytree(measured, copy)
    told = next(copy.rglob("results.json"))
    data = json.loads(told.read_text(encoding="utf-8"))
    first, *others = [result["scenario"] for result in data["results"]]
    other = {
        "scenario": first,
        "mode": "accuracy",
        "measured_at": "2026-01-02T03:04:05+00:00",
        "differs": ["precision float32, now int8"],
        "command": "",
    }
    told.write_text(json.dumps({**data, "others": [other]}), encoding="utf-8")
    found = runs.collect(copy)
    assert set(found.runs[0].scenarios) == set(others)
    (note,) = found.notes
    assert note.startswith(f"resnet50 {first} is left out: its accuracy is of another ")


MODULES = """
Memory Device
\tSize: 16 GB
\tType: DDR4
\tSpeed: 3200 MT/s

Memory Device
\tSize: No Module Installed

Memory Device
\tSize: 16 GB
\tType: DDR4
\tSpeed: 3200 MT/s
"""


def test_a_processor_that_has_no_ids_in_cpuinfo_is_counted_by_its_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on ARM: four threads of two cores in each of two sockets.
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50.00\n", encoding="utf-8")
    for number in range(8):
        folder = tmp_path / "devices/system/cpu" / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{number // 4}\n", encoding="utf-8")
        (folder / "core_id").write_text(f"{number // 2}\n", encoding="utf-8")
    monkeypatch.setattr(machine, "PROC", tmp_path)
    monkeypatch.setattr(machine, "SYS", tmp_path)
    monkeypatch.setattr(machine, "_output", lambda *words: "Model name:   Neoverse-N1\n")
    monkeypatch.setattr(machine.host, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine.host.platform, "processor", lambda: "")
    found = machine.facts(())
    assert found["host_processors_per_node"] == "2"
    assert found["host_processor_core_count"] == "2"
    assert found["host_processor_model_name"] == "Neoverse-N1"


def test_what_tools_print_is_understood() -> None:
    assert machine.memory_modules(MODULES) == "2 x 16 GB DDR4 3200 MT/s"
    assert machine.memory_modules("") == ""
    head = "name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max, clocks.max.sm [MHz]\n"
    said = "NVIDIA H100, 81559, 5, 16, 1980\n"
    cards = machine.accelerators(_gpus(head + said * 2))
    assert cards["accelerators_per_node"] == "2"
    assert cards["accelerator_memory_capacity"] == "80 GB"
    assert cards["accelerator_host_interconnect"] == "PCIe Gen5 x16"
    assert machine.accelerators(_gpus(head + said + said.replace("H100", "A100"))) == {}
    assert machine.accelerators(_gpus("no devices were found\n")) == {}


def _gpus(said: str) -> list[Mapping[str, str]]:
    """The GPUs where ``nvidia-smi`` says that."""
    driver = nvidia.read(
        Path("/nowhere"), Path, lambda words: ProbeResult(tuple(words), 0, said, "", 0.0)
    )
    return [gpu.kind for gpu in driver.gpus]


def test_lines_keep_within_a_terminal(request_: steps.TreeRequest, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = steps.generate(request_).lines
    long = [line for line in lines if len(line) > 80 and not re.search(r"\S{50}", line)]
    assert long == []


def test_interrupted_runs_and_the_command_that_finishes_them(
    measured: Path, request_: steps.TreeRequest, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(measured, results)
    (benchmark,) = results.glob("*/*/resnet50")
    (benchmark / "results.json").unlink()
    shutil.rmtree(benchmark / "offline/accuracy")
    record = benchmark / "offline/performance/result.json"
    told = json.loads(record.read_text("utf-8"))
    told["circumstances"]["command"] = "cm run script --tags=x --results_dir=/gone --quiet"
    record.write_text(json.dumps(told), "utf-8")
    with pytest.raises(SubmissionError, match="resnet50 were interrupted") as caught:
        steps.generate(replace(request_, results_dir=results))
    assert "offline: performance, no accuracy; singlestream: accuracy, performance" in str(
        caught.value
    )
    assert caught.value.hint == (
        "finish them, these are kept: "
        f"cm run script --tags=x --quiet --results_dir={results.resolve()}"
    )
    shutil.copytree(next(measured.glob("*/*/resnet50")), benchmark.with_name("other"))
    answer = steps.generate(replace(request_, results_dir=results))
    (note,) = [each for each in answer.data["notes"] if "interrupted" in each]
    assert "lab" in note
    assert "resnet50 is left out" in note


def test_a_missing_scenario_is_reported_with_the_command_that_makes_it(
    request_: steps.TreeRequest,
) -> None:
    answer = steps.generate(replace(request_, division="closed"))
    mends = {each.rule: each.mend for each in answer.verdict.faults}
    folder = f"--results_dir={request_.results_dir}"
    lacking = mends["benchmark.scenario-missing"]
    assert "--tags=run-mlperf,inference,_all-modes,_all-scenarios,_compliance,_tiny" in lacking
    assert "--model=resnet50 --category=edge" in lacking
    assert folder in lacking
    assert "--scenario" not in lacking
    tests = mends["compliance.missing"]
    assert "--scenario=Offline" in tests or "--scenario=SingleStream" in tests
    assert tests.endswith("--mode=compliance")


def test_a_test_without_the_accuracy_run_it_needs_is_mended_with_both(
    request_: steps.TreeRequest, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(request_.results_dir, results)
    for accuracy in results.glob("*/*/resnet50/*/accuracy"):
        shutil.rmtree(accuracy)
    answer = steps.generate(replace(request_, division="closed", results_dir=results))
    mends = [each.mend for each in answer.verdict.faults if each.rule == "compliance.missing"]
    assert any("_all-modes,_compliance" in mend and "accuracy run" in mend for mend in mends)


def test_a_power_measurement_goes_with_its_run(request_: steps.TreeRequest, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(request_.results_dir, results)
    (benchmark,) = results.glob("*/*/resnet50")
    scenario = benchmark / "offline"
    lab.put(scenario / "performance/power/client.json", "{}\n")
    lab.put(scenario / "performance/ranging/spl.txt", "Time\n")
    lab.put(scenario / "performance/run_1/spl.txt", "Time\n")
    lab.put(scenario / "analyzer_table.md", "| WT310 |\n")
    told = tmp_path / "machine.yaml"
    told.write_text("system_power_capacity: 300\n", encoding="utf-8")
    answer = steps.generate(replace(request_, results_dir=results, system_file=told))
    cell = next(request_.submission_dir.glob("open/Tester/results/*/resnet/Offline"))
    for name in ("performance/power/client.json", "performance/run_1/spl.txt", "analyzer_table.md"):
        assert (cell / name).is_file(), name
    broken = {each.rule for each in answer.verdict.faults}
    assert {"power.files", "power.meter", "power.samples"} <= broken
    assert "performance.extra-files" not in broken
    assert "power.nameplate" not in broken
