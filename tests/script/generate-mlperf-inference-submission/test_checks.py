"""Our checks: all that is wrong is found, nothing that is right."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import power_lab
import power_lab as power
import submission_lab as lab
import submission_mutations as mutations
from mlperf import catalog
from mlperf.catalog import stand_in
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.verdict import more_queries
from mlperf.submission import checks, steps, truncate, verdict
from mlperf.submission.checks import accuracy, benchmarks, performance
from mlperf.submission.checks.base import Finding, read_detail_log
from mlperf.submission.errors import SubmissionError
from support import ROOT

NETWORK = lab.Example(
    division="network",
    category="datacenter",
    benchmarks=("3d-unet-99",),
    scenarios=("Offline",),
)
EXAMPLES = {
    "edge": lab.Example(),
    "edge 5.1": lab.Example("5.1"),
    "edge 5.0": lab.Example("5.0"),
    "edge 4.1": lab.Example("4.1"),
    "datacenter 5.0": lab.Example("5.0", scenarios=("Server", "Offline"), category="datacenter"),
    "datacenter 4.1": lab.Example("4.1", scenarios=("Server", "Offline"), category="datacenter"),
    "network": NETWORK,
    "bert": lab.Example(benchmarks=("bert-99",), scenarios=("SingleStream", "Offline")),
    "open": lab.Example(division="open", benchmarks=("resnet", "bert-99"), scenarios=("Offline",)),
}


def broken(findings: list[Finding]) -> set[str]:
    return {finding.rule for finding in findings}


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_wrong_with_a_whole_tree(tmp_path: Path, name: str) -> None:
    assert checks.check(lab.make(tmp_path / "tree", EXAMPLES[name])) == []


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda each: each.name)
def test_what_is_wrong_is_found(tmp_path: Path, mutation: mutations.Mutation) -> None:
    tree = lab.make(tmp_path / "tree")
    mutation.apply(mutations.place(tree))
    assert mutation.rule in broken(checks.check(tree))


@pytest.mark.parametrize("mutation", mutations.ALLOWED, ids=lambda each: each.name)
def test_what_is_right_stays_right(tmp_path: Path, mutation: mutations.Mutation) -> None:
    tree = lab.make(tmp_path / "tree")
    mutation.apply(mutations.place(tree))
    assert checks.check(tree) == []


def test_every_rule_is_tested_by_a_change() -> None:
    other = {"tree.nothing", "tree.unknown-folder", "tree.model-mapping", "result.form"}
    other |= {"result.stand-in", "performance.inferred", "performance.latency", "system.unanswered"}
    other |= {"compliance.truncated"}
    other |= {"performance.equal-issue", "performance.network"}
    other |= {"measurements.user-conf"}
    other |= {"power.meter", "power.samples", "power.nameplate", "power.consistent"}
    other |= {"power.session"}
    # Those of some benchmarks only.
    other |= {"accuracy.outputs", "performance.tokens", "performance.token-latency"}
    # Those of the Endpoints client have tests of their own.
    other |= {rule.id for rule in checks.rules() if rule.id.startswith("client.")}
    tested = {mutation.rule for mutation in mutations.MUTATIONS}
    assert {rule.id for rule in checks.rules()} - tested == other


def first(tree: lab.SubmissionTree) -> lab.ScenarioCell:
    _, _, root = tree.submitters()[0]
    return lab.layouts.cells(root, tree.layout)[0]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("sut_name", "PyFastSUT", "performance.network"),
        ("effective_sample_concatenate_permutation", False, "performance.equal-issue"),
    ],
)
def test_what_a_network_or_an_uneven_benchmark_needs(
    tmp_path: Path, key: str, value: object, rule: str
) -> None:
    tree = lab.make(tmp_path / "tree", NETWORK)
    mutations.value(first(tree).run / mutations.DETAIL, key, value)
    consistent = {f"{each}.consistent" for each in ("accuracy", "compliance", "performance")}
    assert broken(checks.check(tree)) - consistent == {rule}


@pytest.mark.parametrize(
    ("asked", "benchmark", "scenario", "key"),
    [
        ("6.1", "resnet", "Server", "effective_target_latency_ns"),
        ("6.1", "deepseek-r1", "Interactive", "effective_target_latency_ns"),
        ("6.1", "deepseek-r1", "Interactive", "result_completed_tokens_per_second"),
        ("6.1", "deepseek-r1", "Server", "result_completed_samples_per_sec"),
        ("6.1", "e2e-rag-db", "Offline", "result_samples_per_second"),
        ("6.1", "e2e-rag-db", "Offline", "effective_min_query_count"),
        ("4.1", "gptj-99", "Offline", "result_inferred_tokens_per_second"),
        ("5.0", "gptj-99.9", "Server", "result_inferred_completed_tokens_per_second"),
    ],
)
@pytest.mark.parametrize("division", ["closed", "open"])
def test_a_log_holds_what_the_checker_calculates_with(
    tmp_path: Path, asked: str, benchmark: str, scenario: str, key: str, division: str
) -> None:
    example = lab.Example(asked, division, (benchmark,), (scenario,), "datacenter")
    tree = lab.make(tmp_path / "tree", example)
    assert "performance.figures" not in broken(checks.check(tree))
    log = first(tree).run / mutations.DETAIL
    mutations.text(log, rf'^.*"key": "{key}".*\n', "")
    assert "performance.figures" in broken(checks.check(tree))


@pytest.mark.parametrize(("asked", "severity"), [("5.1", "nature"), ("6.1", "warning")])
def test_too_few_offline_samples_in_the_open_division(
    tmp_path: Path, asked: str, severity: str
) -> None:
    example = lab.Example(asked, "open", ("resnet",), ("Offline",))
    tree = lab.make(tmp_path / "tree", example)
    mutations.value(first(tree).run / mutations.DETAIL, "effective_samples_per_query", 100)
    found = [each for each in checks.check(tree) if each.rule == "performance.samples"]
    assert [each.severity for each in found] == [severity]


@pytest.mark.parametrize(
    ("measured", "folder", "key"),
    [
        ("SingleStream", "Offline", "result_qps_without_loadgen_overhead"),
        ("SingleStream", "MultiStream", "early_stopping_latency_ms"),
        ("MultiStream", "Offline", "result_mean_query_latency_ns"),
    ],
)
def test_an_inferred_result_has_what_it_is_made_of(
    tmp_path: Path, measured: str, folder: str, key: str
) -> None:
    tree = lab.make(tmp_path / "tree")
    _, _, root = tree.submitters()[0]
    cells = {cell.scenario: cell for cell in lab.layouts.cells(root, tree.layout)}
    for name in (mutations.DETAIL, mutations.SUMMARY):
        shutil.copy(cells[measured].run / name, cells[folder].run / name)
    log = cells[folder].run / mutations.DETAIL
    told = log.read_text("utf-8")
    log.write_text(told + lab.line(key, 1_200_000) + "\n", "utf-8")
    assert "performance.figures" not in broken(checks.check(tree))
    log.write_text(told + lab.line(key, 0) + "\n", "utf-8")
    assert "performance.figures" in broken(checks.check(tree))


def test_a_network_system_describes_its_network(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", NETWORK)
    (described,) = tree.root.glob("network/*/systems/*.json")
    document = json.loads(described.read_text("utf-8"))
    lab.put(described, json.dumps({**document, "is_network": "false", "network_rate": ""}))
    assert broken(checks.check(tree)) == {"system.network", "system.field-empty"}


def test_a_system_over_a_network_in_the_open_division(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    mutations.field(mutations.place(tree).system, "is_network", "true")
    assert broken(checks.check(tree)) == {"system.field-missing", "performance.network"}


@pytest.mark.parametrize(
    ("name", "key", "value", "found"),
    [
        ("5.1", "framework", ["a"], {("system.field-type", "error")}),
        ("6.1", "framework", ["a"], {("system.field-type", "warning")}),
        ("6.1", "sw_notes", ["a"], {("system.field-type", "error")}),
        ("4.1", "is_network", "false", set()),
        ("5.1", "is_network", "false", {("system.field-missing", "warning")}),
        ("4.1", "number_of_nodes", "1.0", set()),
        ("5.1", "number_of_nodes", "1.0", {("system.field-number", "warning")}),
        ("6.1", "number_of_nodes", "1.0", {("system.field-number", "error")}),
    ],
)
def test_what_checkers_calculate_with_in_a_description(
    tmp_path: Path, name: str, key: str, value: object, found: set[tuple[str, str]]
) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    mutations.field(mutations.place(tree).system, key, value)
    assert {(each.rule, each.severity) for each in checks.check(tree)} == found


def test_a_test_with_seeds_of_its_own(tmp_path: Path) -> None:
    """TEST05 repeats the run with other seeds; those of the result itself are wrong there."""
    tree = lab.make(tmp_path / "tree", EXAMPLES["edge 4.1"])
    cell = first(tree)
    assert cell.compliance("TEST05").is_dir()
    log = cell.compliance("TEST05") / "performance/run_1" / mutations.DETAIL
    mutations.value(log, "effective_qsl_rng_seed", 3066443479025735752)
    assert broken(checks.check(tree)) == {"performance.seeds"}


@pytest.mark.parametrize("name", ["4.1", "6.1"])
def test_a_measured_power_is_accepted(tmp_path: Path, name: str) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    power.measure(tree, first(tree))
    assert checks.check(tree) == []


def no_readings(cell: lab.ScenarioCell) -> None:
    text = (cell.run / "spl.txt").read_text("utf-8")
    lab.put(cell.run / "spl.txt", text.replace("Watts,45.5", "Watts,0.0"))


def later(cell: lab.ScenarioCell) -> None:
    text = (cell.run / "spl.txt").read_text("utf-8")
    lab.put(cell.run / "spl.txt", text.replace("11-21-2024", "11-22-2024"))


def no_plate(cell: lab.ScenarioCell) -> None:
    described = cell.root / "systems" / f"{cell.system}.json"
    document = json.loads(described.read_text("utf-8"))
    del document["system_power_capacity"]
    lab.put(described, json.dumps(document))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda cell: (cell.run / "spl.txt").unlink(), "power.files"),
        (lambda cell: (cell.results / "performance/power/ptd_logs.txt").unlink(), "power.files"),
        (lambda cell: lab.put(cell.results / "performance/ranging/x.txt", "x"), "power.files"),
        (lambda cell: (cell.measurements / "analyzer_table.md").unlink(), "power.meter"),
        (lambda cell: lab.put(cell.measurements / "power_settings.md", ""), "power.meter"),
        (no_readings, "power.samples"),
        (later, "power.samples"),
        (no_plate, "power.nameplate"),
    ],
)
def test_what_a_power_measurement_lacks(
    tmp_path: Path, spoil: Callable[[lab.ScenarioCell], object], rule: str
) -> None:
    tree = lab.make(tmp_path / "tree")
    power.measure(tree, first(tree))
    spoil(first(tree))
    # The session has the checksums of what is changed here.
    assert broken(checks.check(tree)) - {"power.session"} == {rule}


def told(cell: lab.ScenarioCell, **fields: object) -> None:
    path = cell.results / "performance/power/server.json"
    lab.put(path, json.dumps({**json.loads(path.read_text("utf-8")), **fields}))


def appended(cell: lab.ScenarioCell, name: str) -> None:
    path = cell.results / "performance" / name
    lab.put(path, path.read_text("utf-8") + "\n")


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda cell: appended(cell, "power/server.log"), "SHA-1"),
        (lambda cell: appended(cell, "ranging/spl.txt"), "SHA-1"),
        (lambda cell: appended(cell, "run_1/mlperf_log_summary.txt"), "SHA-1"),
        (lambda cell: told(cell, results={"power/server.log": "0"}), "SHA-1"),
        (lambda cell: told(cell, session_name="another"), "its session_name is 'another'"),
        (lambda cell: told(cell, messages=[{"cmd": "hello"}]), "its message 0"),
        (lambda cell: told(cell, messages=None), "it has 0 messages"),
        (lambda cell: told(cell, debug=True), "debug mode"),
        (lambda cell: lab.put(cell.results / "performance/power/client.json", "[]"), "JSON object"),
    ],
)
def test_a_power_session_is_one_and_unchanged(
    tmp_path: Path, spoil: Callable[[lab.ScenarioCell], object], found: str
) -> None:
    tree = lab.make(tmp_path / "tree")
    power.measure(tree, first(tree))
    spoil(first(tree))
    findings = checks.check(tree)
    assert broken(findings) == {"power.session"}
    assert found in findings[0].found
    old = lab.make(tmp_path / "old", lab.Example("3.0", scenarios=("Offline",)))
    power.measure(old, first(old))
    spoil(first(old))
    severities = {each.severity for each in checks.check(old) if each.rule == "power.session"}
    assert severities == {"warning"}


def test_a_nameplate_in_a_file_of_its_own(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    cell = first(tree)
    power.measure(tree, cell)
    no_plate(cell)
    lab.put(cell.root / "systems" / f"{cell.system}_power.yaml", "Machine: {}\n")
    assert checks.check(tree) == []


def test_a_processor_in_the_place_of_a_neuron_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "SYSTEM", "box-cmbench-cpu-neuron-default_config")
    found = checks.check(lab.make(tmp_path / "tree"))
    assert broken(found) == {"result.stand-in"}
    assert found[0].found == "a stand-in took the place of a Neuron device"


SIGN = stand_in.line("neuron", "cpu")


def described(cell: lab.ScenarioCell, **fields: str) -> None:
    path = cell.root / "systems" / f"{cell.system}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    lab.put(path, json.dumps({**told, **fields}))


def add(path: Path, text: str) -> None:
    lab.put(path, path.read_text(encoding="utf-8") + text)


def of_measurement(cell: lab.ScenarioCell) -> None:
    (path,) = cell.measurements.glob("*.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    lab.put(path, json.dumps({**told, "weight_transformations": f"none; {SIGN}"}))


SAID = {
    "systems/box-cpu.json": lambda cell: described(cell, sw_notes=f"tiny; {SIGN}"),
    "a framework of Neuron without an accelerator": lambda cell: described(
        cell, framework="neuron 1.13", accelerators_per_node="0"
    ),
    "user.conf": lambda cell: add(cell.measurements / "user.conf", f"# {SIGN}\n"),
    "README.md": lambda cell: add(cell.measurements / "README.md", f"\n{SIGN}\n"),
    "README.md of the command": lambda cell: add(
        cell.measurements / "README.md", "\ncm run script --device=cpu --x=y --backend=neuron\n"
    ),
    "accuracy.txt": lambda cell: lab.put(
        cell.accuracy / "accuracy.txt",
        (cell.accuracy / "accuracy.txt").read_text("utf-8").replace("\nhash", f"\n{SIGN}\nhash"),
    ),
    "the description of the implementation": of_measurement,
}


@pytest.mark.parametrize("said_by", SAID)
def test_each_file_that_says_so_gives_a_stand_in_away(tmp_path: Path, said_by: str) -> None:
    """Whoever renames the system, or mends one file, has the others left."""
    tree = lab.make(tmp_path / "tree")
    SAID[said_by](first(tree))
    found = checks.check(tree)
    assert broken(found) == {"result.stand-in"}
    assert {each.severity for each in found} == {"nature"}
    assert found[0].found == "a stand-in took the place of a Neuron device"


def test_it_is_said_by_whom(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    add(first(tree).measurements / "user.conf", f"# {SIGN}\n")
    SAID["accuracy.txt"](first(tree))
    (finding,) = checks.check(tree)
    for name in ("user.conf", "accuracy/accuracy.txt"):
        assert name in finding.mend


def test_what_computes_itself_leaves_no_line() -> None:
    assert stand_in.line("onnxruntime", "cpu") == stand_in.line("neuron", "inf1") == ""
    assert stand_in.line("triton", "cpu", {"backend": "neuron"}) == SIGN
    assert stand_in.line("triton", "cpu", {"backend": "openvino"}) == ""
    assert stand_in.line("of somebody else", "cpu") == ""
    assert stand_in.find_replaced(SIGN) == "a Neuron device"
    assert stand_in.find_replaced(stand_in.line("stand-in", "cpu")) == "TensorRT"
    assert stand_in.find_replaced("a stand-in for the real model") == ""


def test_findings_say_where_and_what_to_do(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    mutations.empty_run(mutations.place(tree))
    for finding in checks.check(tree):
        assert finding.where.startswith("closed/Tester/results/box-cpu/resnet/Offline")
        assert finding.mend
        assert finding.source


def test_what_stood_in_for_a_runtime_cannot_be_submitted(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    (path,) = tree.root.glob("closed/*/systems/*.json")
    system = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**system, "framework": "stand-in 1.32.0"}), encoding="utf-8")
    found = {(each.rule, each.severity) for each in checks.check(tree)}
    assert found == {("result.stand-in", "nature")}


def test_the_page_lists_every_rule() -> None:
    page = (ROOT / "docs/reference/submission-checks.md").read_text(encoding="utf-8")
    for rule in checks.rules():
        assert f"| `{rule.id}` | {rule.title} | {rule.severity} | {rule.source} |" in page


def test_nothing_to_check_is_no_pass(tmp_path: Path) -> None:
    assert broken(checks.check(lab.SubmissionTree(tmp_path, lab.layouts.of_round("6.1")))) == {
        "tree.nothing"
    }


def test_a_tree_of_another_layout(tmp_path: Path) -> None:
    """The measurements of 5.1 are no folder of 6.1, where they belong to the results."""
    old = lab.make(tmp_path / "tree", lab.Example("5.1"))
    found = broken(checks.check(lab.SubmissionTree(old.root, lab.layouts.of_round("6.1"))))
    assert {"tree.unknown-folder", "measurements.files", "performance.seeds"} <= found


def test_a_mapping_to_no_benchmark(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    lab.put(tree.root / "open/Tester/model_mapping.json", '{"mine": "resnext"}')
    assert broken(checks.check(tree)) == {"tree.model-mapping"}


def test_a_mapping_that_is_a_list_and_names_that_are_not_used(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    (path,) = tree.root.glob("open/*/model_mapping.json")
    lab.put(path, "[]")
    assert broken(checks.check(tree)) == {"tree.model-mapping"}
    lab.put(path, json.dumps({"resnet": "resnet", "my-net": "none"}))
    assert [(each.rule, each.severity) for each in checks.check(tree)] == [
        ("tree.model-mapping", "warning")
    ]


def same(p: mutations.Place) -> None:
    (p.root / p.tree.layout.code / p.offline.benchmark / "same.md").symlink_to("README.md")


def equal(p: mutations.Place) -> None:
    accuracy = p.offline.compliance("TEST01") / "accuracy"
    for name in ("baseline", "compliance"):
        lab.put(accuracy / f"{name}_accuracy.txt", mutations.told(p))


def hidden(p: mutations.Place) -> None:
    lab.put(p.root / p.tree.layout.code / p.offline.benchmark / ".env", "x")


def other_seeds(p: mutations.Place) -> None:
    log = p.offline.accuracy / mutations.DETAIL
    mutations.value(log, "effective_qsl_rng_seed", 12786827339337101903)


def halved(p: mutations.Place) -> None:
    shutil.rmtree(p.offline.compliance("TEST04-B"))


def pairs(p: mutations.Place) -> None:
    mutations.field(p.system, "accelerators_per_node", "(8,4)")


def leftover(p: mutations.Place) -> None:
    shutil.copytree(p.root / "measurements" / lab.SYSTEM, p.root / "measurements" / "other")


def undescribed(p: mutations.Place) -> None:
    lab.put(p.root / "systems" / "other.json", p.system.read_text())


def alias(p: mutations.Place) -> None:
    for top in ("results", "measurements", "compliance"):
        for folder in sorted(p.root.glob(f"{top}/*/resnet")):
            folder.rename(folder.with_name("resnet50"))


def empty_benchmark(p: mutations.Place) -> None:
    lab.put(p.root / "results" / lab.SYSTEM / "bert-99" / "README.md", "x")


def second_description(p: mutations.Place) -> None:
    lab.put(p.offline.measurements / f"{lab.SYSTEM}_a.json", "{}")


def no_notes(p: mutations.Place) -> None:
    told = json.loads(p.system.read_text())
    p.system.write_text(json.dumps({**told, "hw_notes": None, "sw_notes": ""}))


more_logs = mutations.write(lambda p: p.offline.run / "metadata.json", "{}")
more_answers = mutations.write(lambda p: p.offline.accuracy / "metadata.json", "{}")
more_in_a_test = mutations.write(
    lambda p: p.offline.compliance("TEST01") / "performance/run_1/metadata.json", "{}"
)
no_code = mutations.drop(lambda p: p.root / p.tree.layout.code)
no_measurements = mutations.drop(lambda p: p.offline.measurements)
no_key = mutations.measured("starting_weights_filename", None)


def description_of_another(p: mutations.Place) -> None:
    path = mutations.described(p.offline)
    path.rename(path.with_name("another_system.json"))


def other_code(p: mutations.Place) -> None:
    folder = p.root / p.tree.layout.code / p.offline.benchmark
    folder.rename(folder.with_name("something-else"))


NOT_KNOWN = ("system.unanswered", "note")
no_count = mutations.system("accelerators_per_node", "N/A")
no_network = mutations.system("is_network", "no")
issued_again = mutations.test("TEST01", "effective_performance_issue_same", True)
OTHER_DATA = ("compliance.consistent", "warning")
few_loaded = mutations.test("TEST01", "qsl_reported_total_count", 500)


def nothing_compared(p: mutations.Place) -> None:
    place = p.offline.compliance("TEST01")
    lab.put(place / "verify_accuracy.txt", "num_perf_log_entries = 0\nTEST PASS\n")
    lab.put(place / "accuracy" / mutations.ACCURACY, "[\n]\n")


@pytest.mark.parametrize(
    ("name", "apply", "found"),
    [
        # A result of CTuning was accepted so.
        ("3.1", nothing_compared, {(f"compliance.{r}", "warning") for r in ("answers", "verdict")}),
        ("4.0", nothing_compared, {(f"compliance.{r}", "error") for r in ("answers", "verdict")}),
        ("2.1", issued_again, {("performance.settings", "warning")}),
        ("3.1", issued_again, {("performance.settings", "error")}),
        ("2.1", few_loaded, {("performance.samples", "warning"), OTHER_DATA}),
        ("3.1", few_loaded, {("performance.samples", "nature"), OTHER_DATA}),
        ("2.1", mutations.perf("effective_min_query_count", 1, "SingleStream"), set()),
        ("6.0", no_count, {("system.field-number", "error"), NOT_KNOWN}),
        ("5.1", no_count, {("system.field-number", "warning"), NOT_KNOWN}),
        ("4.1", no_count, {NOT_KNOWN}),
        ("6.0", no_network, {("system.field-missing", "error")}),
        ("5.0", no_network, {("system.field-missing", "warning")}),
        ("4.1", no_network, set()),
        ("5.1", same, {("tree.links", "error")}),
        ("6.1", same, {("tree.links", "warning")}),
        ("5.1", equal, {("compliance.files", "error")}),
        ("6.1", equal, {("compliance.files", "warning")}),
        ("2.0", lambda p: None, set()),
        ("2.0", halved, {("compliance.missing", "error")}),
        ("2.1", hidden, {("tree.names", "warning")}),
        ("3.0", hidden, {("tree.names", "error")}),
        ("3.0", other_seeds, {("accuracy.seeds", "warning")}),
        ("3.1", other_seeds, {("accuracy.seeds", "error")}),
        ("2.1", pairs, {("system.field-number", "warning")}),
        ("5.1", leftover, {("tree.system-without-results", "error")}),
        ("6.0", undescribed, {("tree.system-without-results", "warning")}),
        ("5.0", leftover, {("tree.system-without-results", "warning")}),
        ("6.0", hidden, {("tree.names", "warning")}),
        ("5.1", more_logs, {("performance.extra-files", "error")}),
        ("6.0", more_logs, {("performance.extra-files", "warning")}),
        ("6.0", more_in_a_test, {("performance.extra-files", "error")}),
        ("5.1", more_answers, {("accuracy.extra-files", "error")}),
        ("6.0", more_answers, {("accuracy.extra-files", "warning")}),
        ("5.1", no_code, {("tree.code", "error")}),
        ("6.0", no_code, {("tree.code", "error")}),
        ("5.1", other_code, {("tree.code", "error")}),
        ("6.0", other_code, {("tree.code", "warning")}),
        ("5.1", alias, {("tree.code", "error")}),
        ("6.0", alias, set()),
        ("5.1", empty_benchmark, {("benchmark.scenario-missing", "error")}),
        ("6.0", empty_benchmark, {("benchmark.scenario-missing", "warning")}),
        ("5.1", second_description, {("measurements.keys", "error")}),
        ("6.0", second_description, set()),
        ("5.1", no_notes, {("system.field-type", "error"), ("system.field-type", "warning")}),
        ("6.0", no_notes, {("system.field-type", "warning")}),
        ("4.1", leftover, {("tree.system-without-results", "warning")}),
        ("3.0", no_code, {("tree.code", "warning")}),
        ("3.1", no_code, {("tree.code", "error")}),
        # A result of cTuning was accepted with the description of another system.
        ("3.0", description_of_another, {("measurements.files", "warning")}),
        ("3.1", description_of_another, {("measurements.files", "error")}),
        ("3.0", no_measurements, {("measurements.files", "error")}),
        ("3.0", no_key, {("measurements.keys", "warning")}),
        ("3.1", no_key, {("measurements.keys", "error")}),
    ],
)
def test_what_only_some_rounds_refuse(
    tmp_path: Path, name: str, apply: Callable[[mutations.Place], None], found: set[tuple[str, str]]
) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    apply(mutations.place(tree))
    assert {(each.rule, each.severity) for each in checks.check(tree)} == found


@pytest.mark.parametrize(
    ("name", "folder"), [("llama3.1-8b", "llama3_1-8b"), ("llama2-70b-99.9", "llama2-70b-99")]
)
def test_code_under_another_spelling_from_6_0_on(tmp_path: Path, name: str, folder: str) -> None:
    tree = lab.make(tmp_path / "tree", replace(measured(name, "datacenter"), round="6.0"))
    (code,) = tree.root.glob("closed/*/src/*")
    code.rename(code.with_name(folder))
    assert "tree.code" not in broken(checks.check(tree))


def test_rounds_whose_rules_are_not_known(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example("2.0"))
    for name in ("0.7", "1.1"):
        with pytest.raises(SubmissionError, match=f"the rules of v{name} are not known"):
            steps.check(tree.root, name, "")
        summarized = steps.summarize(tree.root, name)
        assert not summarized.verdict.submittable
        assert f"not judged: the rules of v{name}" in "\n".join(summarized.lines)


def test_an_own_name_in_the_open_division(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    root = tree.root / "open/Tester"
    (root / "results/box-cpu/resnet").rename(root / "results/box-cpu/mine")
    (root / "src/resnet").rename(root / "src/mine")
    assert "benchmark.unknown" in broken(checks.check(tree))
    lab.put(root / "model_mapping.json", '{"mine": "resnet", "bert-99": "bert-99"}')
    assert checks.check(tree) == []


def test_a_log_that_a_test_lacks_is_one_finding(tmp_path: Path) -> None:
    place = mutations.place(lab.make(tmp_path / "tree", lab.Example("3.1")))
    mutations.unequal(place, 0.999)
    log = mutations.tested(place, "TEST01") / "accuracy" / mutations.ACCURACY
    log.unlink()
    (found,) = checks.check(place.tree)
    assert (found.rule, found.where) == ("compliance.files", place.tree.relative(log))


def test_a_name_of_another_benchmark_of_ours_in_a_round_that_meant_a_new_one(
    tmp_path: Path,
) -> None:
    tree = lab.make(
        tmp_path / "tree", lab.Example("2.1", "open", ("retinanet",), scenarios=("Offline",))
    )
    for folder in sorted(tree.root.rglob("retinanet")):
        folder.rename(folder.with_name("ssd-resnet34"))
    assert checks.check(tree) == []


def test_the_form_of_a_result_is_its_nature(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    readme = mutations.place(tree).offline.measurements / "README.md"
    lab.put(readme, "# resnet50 (tiny form), Offline\n")
    (finding,) = checks.check(tree)
    assert (finding.rule, finding.severity) == ("result.form", "nature")


def test_a_stand_in_is_the_nature_of_its_results(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    system = mutations.place(tree).system
    told = json.loads(system.read_text(encoding="utf-8"))
    lab.put(system, json.dumps({**told, "sw_notes": f"{benchmarks.STAND_IN_NOTE}: ONNX Runtime"}))
    found = checks.check(tree)
    assert {(finding.rule, finding.severity) for finding in found} == {
        ("result.stand-in", "nature")
    }


def test_a_benchmark_of_an_older_round_is_the_nature_of_a_stand_in(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    root = tree.root / "open/Tester"
    (root / "results/box-cpu/resnet").rename(root / "results/box-cpu/rnnt")
    (root / "src/resnet").rename(root / "src/rnnt")
    found = [each for each in checks.check(tree) if each.rule == "benchmark.unknown"]
    assert {each.severity for each in found} == {"error"}
    for system in (root / "systems").glob("*.json"):
        told = json.loads(system.read_text(encoding="utf-8"))
        lab.put(system, json.dumps({**told, "sw_notes": benchmarks.STAND_IN_NOTE}))
    found = [each for each in checks.check(tree) if each.rule == "benchmark.unknown"]
    assert {each.severity for each in found} == {"nature"}


def test_scenarios_of_an_older_round_are_the_nature_of_a_stand_in(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    (offline,) = (tree.root / "closed").glob("*/results/*/*/Offline")
    offline.rename(offline.with_name("Server"))
    rules = ("benchmark.scenario-unknown", "benchmark.scenario-missing")

    def severities() -> list[tuple[str, str]]:
        found = checks.check(tree)
        return sorted({(each.rule, each.severity) for each in found if each.rule in rules})

    assert severities() == [(rules[1], "error"), (rules[0], "error")]
    for system in (tree.root / "closed").glob("*/systems/*.json"):
        told = json.loads(system.read_text(encoding="utf-8"))
        lab.put(system, json.dumps({**told, "sw_notes": benchmarks.STAND_IN_NOTE}))
    assert severities() == [(rules[1], "nature"), (rules[0], "nature")]


def test_an_inferred_result_is_reported(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)
    for one, other in (
        (place.stream.run, place.offline.run),
        (place.stream.accuracy, place.offline.accuracy),
    ):
        for path in one.iterdir():
            (other / path.name).write_bytes(path.read_bytes())
    found = [each for each in checks.check(tree) if "TEST" not in each.where]
    assert {(each.rule, each.severity) for each in found} == {("performance.inferred", "note")}


def test_first_tokens_are_skipped_in_offline_alone(tmp_path: Path) -> None:
    example = lab.Example("6.0", "closed", ("llama2-70b-99",), ("Server", "Offline"), "datacenter")
    tree = lab.make(tmp_path / "tree", example)
    (path,) = tree.root.rglob("Server/TEST06/verify_accuracy.txt")
    mutations.text(path, "pass: True", "pass: Skipped")
    assert broken(checks.check(tree)) == {"compliance.verdict"}


def test_a_value_of_blanks_is_empty(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    mutations.measured("starting_weights_filename", "  ")(mutations.place(tree))
    found = {(each.rule, each.severity) for each in checks.check(tree)}
    assert found == {("measurements.values", "warning")}


def test_another_user_conf_than_that_of_the_run_is_a_note(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    cell = mutations.place(tree).offline
    mutations.added(cell.run / mutations.DETAIL, "effective_target_qps", 1.0)
    assert checks.check(tree) == []
    (cell.measurements / "user.conf").write_text("*.Offline.target_qps = 42\n")
    found = {(each.rule, each.severity) for each in checks.check(tree)}
    assert found == {("measurements.user-conf", "note")}


@pytest.mark.parametrize(("watts", "faults"), [(1.0, 0), (0.1, 1), (10.0, 2)])
def test_the_power_of_a_run_is_that_of_its_ranging(
    tmp_path: Path, watts: float, faults: int
) -> None:
    tree = lab.make(tmp_path / "tree")
    cell = mutations.place(tree).offline
    power_lab.measure(tree, cell)
    path = cell.run / "spl.txt"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines:
        line[3] = str(float(line[3]) * watts)
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    found = [each for each in checks.check(tree) if each.rule == "power.consistent"]
    assert len(found) == faults


def test_a_ranging_run_is_another_run(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    cell = mutations.place(tree).offline
    power_lab.measure(tree, cell)
    name = mutations.DETAIL
    shutil.copy(cell.run / name, cell.results / "performance/ranging" / name)
    assert "power.consistent" in broken(checks.check(tree))


def test_the_limit_of_a_server(tmp_path: Path) -> None:
    example = lab.Example("5.0", scenarios=("Server", "Offline"), category="datacenter")
    tree = lab.make(tmp_path / "tree", example)
    assert checks.check(tree) == []
    log = mutations.place(tree).cells["Server"].run / mutations.DETAIL
    mutations.value(log, "effective_target_latency_ns", 30_000_000)
    # A test under another limit cannot be compared either.
    assert broken(checks.check(tree)) == {"performance.latency", "compliance.speed"}


def test_speeds_of_runs_that_are_too_short_are_not_compared(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)
    mutations.faster(place)
    (mutations.tested(place, "TEST04") / "verify_performance.txt").write_text("TEST FAIL\n")
    assert broken(checks.check(tree)) == {"compliance.speed", "compliance.verdict"}
    for path in tree.root.rglob("performance/run_1/" + mutations.DETAIL):
        mutations.value(path, "effective_min_duration_ms", 10_000)
    found = verdict.judge(checks.check(tree))
    assert found.faults == ()
    assert {each.rule for each in found.nature} == {"performance.duration", "compliance.verdict"}
    assert found.line.startswith("flow complete; not submittable because TEST04 and the result are")


def test_counts_may_be_numbers_and_questions_are_reported(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    system = mutations.place(tree).system
    mutations.field(system, "cooling", "N/A")
    mutations.field(system, "host_processor_core_count", 2)
    found = checks.check(tree)
    assert broken(found) == {"system.unanswered"}
    mutations.field(system, "hw_notes", [])
    assert broken(checks.check(tree)) == {"system.unanswered", "system.field-type"}


def test_a_log_cannot_stand_in_two_places(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)
    twin = place.system.with_name("twin.json")
    lab.put(twin, place.system.read_text(encoding="utf-8"))
    shutil.copytree(place.root / "results/box-cpu", place.root / "results/twin")
    assert broken(checks.check(tree)) == {"accuracy.copied"}


def test_a_long_log_of_a_test(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    log = mutations.place(tree).offline.compliance("TEST01") / "accuracy" / mutations.ACCURACY
    mutations.longer(log)
    assert broken(checks.check(tree)) == {"compliance.truncated"}


def test_answers_may_be_longer_than_what_is_kept(tmp_path: Path) -> None:
    """BERT's are: a cut log then shows not one of them whole."""
    tree = lab.make(tmp_path / "tree", EXAMPLES["bert"])
    for folder in tree.root.rglob("accuracy"):
        log = folder / mutations.ACCURACY
        lab.put(log, lab.answers(range(20)).replace(lab.ANSWER, "00" * 3072))
        truncate.truncate(folder)
        assert log.stat().st_size < truncate.LIMIT
    assert checks.check(tree) == []


@pytest.mark.parametrize(
    ("equally", "issued"),
    [(True, (26736.0,)), (False, (13369.0,)), (None, (13369.0, 26736.0))],
    ids=["equally", "as asked", "not logged"],
)
def test_old_loadgens_log_fewer_samples_than_they_issue_equally(
    equally: bool | None, issued: tuple[float, ...]
) -> None:
    log = DetailLog(
        {
            "generated_samples_per_query": 13369,
            "effective_performance_sample_count": 13368,
        }
    )
    assert performance.samples_issued(log, equally) == issued


def measured(name: str, category: str) -> lab.Example:
    scenarios = tuple(map(str, catalog.benchmark(name).allowed("6.1", category)))
    checker_name = catalog.benchmark(name).checker_name
    return lab.Example(benchmarks=(checker_name,), scenarios=scenarios, category=category)


IN_ROUND = [
    (name, category)
    for category in (*catalog.Category, "datacenter,edge")
    for name, spec in catalog.benchmarks().items()
    if spec.allowed("6.1", category)
]


@pytest.mark.parametrize(("name", "category"), IN_ROUND)
def test_every_benchmark_of_the_round(tmp_path: Path, name: str, category: str) -> None:
    assert checks.check(lab.make(tmp_path / "tree", measured(name, category))) == []


@pytest.mark.parametrize(
    ("scenario", "key", "new", "rule"),
    [
        ("Offline", "requested_use_token_latencies", False, "performance.tokens"),
        ("Server", mutations.TTFT, 2_000_000_000, "performance.token-latency"),
        ("Server", mutations.TPOT, None, "performance.token-latency"),
        ("Interactive", mutations.TTFT, 450_000_000, "performance.token-latency"),
        ("Interactive", mutations.TPOT, 40_000_000, "performance.token-latency"),
        ("Server", "effective_target_latency_ns", 20_100_000_000, "performance.latency"),
    ],
)
def test_latencies_of_tokens(
    tmp_path: Path, scenario: str, key: str, new: object, rule: str
) -> None:
    tree = lab.make(tmp_path / "tree", measured("llama2-70b-99.9", "datacenter"))
    run = next(tree.root.rglob(f"{scenario}/performance/run_1/mlperf_log_detail.txt"))
    mutations.value(run, key, new)
    assert broken(checks.check(tree)) == {rule}


def test_a_benchmark_that_is_other_in_one_scenario(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("qwen3-vl-235b-a22b", "datacenter"))
    told = next(tree.root.rglob("Interactive/accuracy/accuracy.txt"))
    mutations.text(told, r"0\.7878", "0.7803")
    assert checks.check(tree) == []
    mutations.text(told, r"0\.7803", "0.7797")
    assert broken(checks.check(tree)) == {"accuracy.target"}


def test_the_checker_of_one_round_looks_for_equal_issue_in_mlperf_conf(tmp_path: Path) -> None:
    example = lab.Example("4.1", "closed", ("gptj-99",), ("Offline", "Server"), "datacenter")
    tree = lab.make(tmp_path / "tree", example)
    assert checks.check(tree) == []
    for conf in tree.root.rglob("Offline/mlperf.conf"):
        mutations.text(conf, r"gptj\.\*\.sample_concatenate_permutation = 1\n", "")
    (found,) = checks.check(tree)
    assert (found.rule, found.severity) == ("performance.equal-issue", "error")
    assert found.where.endswith("gptj-99/Offline/mlperf.conf")


@pytest.mark.parametrize(
    ("benchmark_round", "key"),
    [("4.0", "result_scheduled_samples_per_sec"), ("5.0", "result_completed_samples_per_sec")],
)
def test_the_figure_that_counts_in_the_round_is_there(
    tmp_path: Path, benchmark_round: str, key: str
) -> None:
    example = lab.Example(benchmark_round, scenarios=("Server", "Offline"), category="datacenter")
    tree = lab.make(tmp_path / "tree", example)
    log = next(tree.root.rglob("Server/performance/run_1/mlperf_log_detail.txt"))
    mutations.value(log, key, None)
    assert "performance.figures" in broken(checks.check(tree))


def test_what_is_other_in_one_scenario_is_so_from_its_round_on(tmp_path: Path) -> None:
    scenarios = ("Interactive", "Offline", "Server")
    example = lab.Example("6.0", "closed", ("qwen3-vl-235b-a22b",), scenarios, "datacenter,edge")
    tree = lab.make(tmp_path / "tree", example)
    log = next(tree.root.rglob("Interactive/accuracy/mlperf_log_detail.txt"))
    assert checks.check(tree) == []
    mutations.value(log, "effective_accuracy_sample_count", 8000)
    mutations.value(log, "qsl_reported_total_count", 8000)
    assert "accuracy.samples" in broken(checks.check(tree))


def test_interactive_and_server_need_logs_of_their_own(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("deepseek-r1", "datacenter"))
    source, target = (
        next(tree.root.rglob(f"{name}/performance/run_1/mlperf_log_detail.txt"))
        for name in ("Interactive", "Server")
    )
    target.write_bytes(source.read_bytes())
    assert "accuracy.copied" in broken(checks.check(tree))


def test_an_interactive_accuracy_run_alone_is_of_its_scenario(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("deepseek-r1", "datacenter"))
    next(tree.root.rglob("Interactive/performance/run_1/mlperf_log_detail.txt")).unlink()
    assert "accuracy.scenario" not in broken(checks.check(tree))


def test_outputs_that_people_look_at(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("wan-2.2-t2v-a14b", "datacenter"))
    next(tree.root.rglob("Offline/accuracy/videos/238.txt")).unlink()
    (found,) = checks.check(tree)
    assert (found.rule, found.severity) == ("accuracy.outputs", "error")
    assert found.found == "without the outputs of 238"


def test_categories_together_need_not_have_what_one_has(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("e2e-rag-qna", "datacenter"))
    system = next(tree.root.rglob("systems/*.json"))
    mutations.field(system, "system_type", "datacenter,edge")
    assert broken(checks.check(tree)) == {"benchmark.category"}


@pytest.mark.parametrize("line", ["First token", "EOS", "Sample length"])
def test_each_line_of_test06_counts(tmp_path: Path, line: str) -> None:
    tree = lab.make(tmp_path / "tree", measured("llama3.1-8b", "datacenter"))
    told = next(tree.root.rglob("Server/TEST06/verify_accuracy.txt"))
    mutations.text(told, f"{line} check pass: True", f"{line} check pass: False")
    assert broken(checks.check(tree)) == {"compliance.verdict"}


@pytest.mark.parametrize(("name", "rule"), [("6.1", "nature"), ("5.1", "warning")])
def test_accuracy_over_less_in_the_open_division(tmp_path: Path, name: str, rule: str) -> None:
    example = lab.Example(name, "open", ("bert-99",), ("Offline",))
    tree = lab.make(tmp_path / "tree", example)
    log = next(tree.root.rglob("accuracy/mlperf_log_detail.txt"))
    mutations.value(log, "effective_accuracy_sample_count", 5000)
    (found,) = checks.check(tree)
    assert (found.rule, found.severity) == ("accuracy.samples", rule)


@pytest.mark.parametrize(
    ("name", "counted", "found"),
    [
        ("4.1", 100_000, []),
        ("5.1", 100_000, [("accuracy.samples", "warning")]),
        ("6.1", 100_000, [("accuracy.samples", "nature")]),
        ("4.1", None, []),
        ("5.1", None, [("accuracy.samples", "nature")]),
        ("6.1", None, [("accuracy.samples", "nature")]),
    ],
)
def test_accuracy_over_other_samples_than_there_are(
    tmp_path: Path, name: str, counted: int | None, found: list[tuple[str, str]]
) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    log = next(tree.root.rglob("Offline/accuracy/mlperf_log_detail.txt"))
    mutations.value(log, "effective_accuracy_sample_count", counted)
    assert [(each.rule, each.severity) for each in checks.check(tree)] == found


@pytest.mark.parametrize(
    ("name", "division", "found"),
    [
        ("5.0", "closed", [("performance.equal-issue", "error")]),
        ("5.0", "open", []),
        ("5.1", "open", [("performance.equal-issue", "error")]),
        ("6.1", "open", [("performance.equal-issue", "warning")]),
    ],
)
def test_samples_that_are_not_issued_equally_often(
    tmp_path: Path, name: str, division: str, found: list[tuple[str, str]]
) -> None:
    example = lab.Example(name, division, ("3d-unet-99",), ("Offline", "SingleStream"))
    tree = lab.make(tmp_path / "tree", example)
    log = next(tree.root.rglob("results/*/*/SingleStream/performance/run_1/mlperf_log_detail.txt"))
    mutations.value(log, "effective_sample_concatenate_permutation", False)
    assert [(each.rule, each.severity) for each in checks.check(tree)] == found


def test_what_random_changes_found(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", measured("bert-99", "edge"))
    stream = next(tree.root.rglob("SingleStream/performance/run_1/mlperf_log_detail.txt"))
    mutations.text(stream, r".*early_stopping_met.*\n", "")
    offline = next(tree.root.rglob("Offline/performance/run_1/mlperf_log_detail.txt"))
    mutations.value(offline, "effective_min_query_count", 0)
    told = next(tree.root.rglob("SingleStream/accuracy/accuracy.txt"))
    mutations.text(told, r"85\.0,", "")
    wanted = {"performance.early-stopping", "performance.queries", "accuracy.figure"}
    assert broken(checks.check(tree)) == wanted


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("np.float64(85.0)", "F1 is 91 there, in a notation that the checkers do not read"),
        ("Decimal('85.0')", "in a notation that the checkers do not read"),
        ("tensor(85.0, dtype=torch.float64)", "in a notation that the checkers do not read"),
        ("'85.0'", "in a notation that the checkers do not read: '85.0'"),
        ("85,0", "F1 is 85 there, in a notation that the checkers do not read: 85,0"),
        ("none", "it does not hold"),
    ],
)
def test_a_figure_in_another_notation_is_not_missing(
    tmp_path: Path, written: str, says: str
) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["bert"])
    told = next(tree.root.rglob("SingleStream/accuracy/accuracy.txt"))
    before = told.read_text(encoding="utf-8")
    mutations.text(told, r"(?<=exact_match.: )[\d.]+", written)
    mutations.text(told, r"(?<=f1.: )[\d.]+", written.replace("85.0", "91.0"))
    assert told.read_text(encoding="utf-8") != before
    (finding,) = [each for each in checks.check(tree) if each.rule == "accuracy.figure"]
    assert says in finding.found
    assert ("sed -i -E" in finding.mend) is (written != "none")


def test_a_decimal_comma_is_not_the_end_of_a_figure(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["edge"])
    told = next(tree.root.rglob("SingleStream/accuracy/accuracy.txt"))
    mutations.text(told, r"accuracy=[\d.]+", "accuracy=76,46")
    (finding,) = [each for each in checks.check(tree) if each.rule == "accuracy.figure"]
    assert "top-1 is 76.46 there" in finding.found
    assert "LC_ALL=C" in finding.mend


@pytest.mark.parametrize("name", ["3.1", "6.0"])
@pytest.mark.parametrize(("division", "severity"), [("closed", "error"), ("open", "warning")])
def test_a_figure_that_an_open_result_lacks_is_a_warning(
    tmp_path: Path, name: str, division: str, severity: str
) -> None:
    tree = lab.make(
        tmp_path / "tree", lab.Example(name, division, ("bert-99",), ("Offline", "SingleStream"))
    )
    path = next(tree.root.rglob("Offline/accuracy/accuracy.txt"))
    mutations.text(path, r"\{.*f1.*\}", "")
    findings = [(each.rule, each.severity) for each in checks.check(tree)]
    assert findings == [("accuracy.figure", severity)]


def test_the_reason_of_early_stopping_of_a_language_model(tmp_path: Path) -> None:
    example = lab.Example("5.1", "closed", ("llama2-70b-99",), ("Server", "Offline"), "datacenter")
    tree = lab.make(tmp_path / "tree", example)
    path = next(tree.root.rglob("Server/performance/run_1/mlperf_log_detail.txt"))
    reason = " * Run unsuccessful.\n * Would need to run at least 805 more queries,\n with"
    mutations.value(path, "early_stopping_met", False)
    mutations.value(path, "result_validity", "INVALID")
    more = {
        "early_stopping_ttft_result": " * Run successful.",
        "early_stopping_tpot_result": reason,
        "result_invalid_reason": "too few queries",
    }
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lab.line(key, value) + "\n" for key, value in more.items())
    found = {each.rule: each.found for each in checks.check(tree)}
    told = "Run unsuccessful. Would need to run at least 805 more queries, with"
    assert found["performance.early-stopping"] == f"early stopping is not satisfied: {told}"
    assert found["performance.invalid"] == "LoadGen calls it INVALID: too few queries"
    assert more_queries(read_detail_log(path.parent)) == 805


def test_a_reason_of_several_lines_is_read_and_the_line_break_told(tmp_path: Path) -> None:
    """LoadGen of round 4.1 writes it so, and the checkers cannot read it."""
    tree = lab.make(tmp_path / "tree", lab.Example(scenarios=("Offline",)))
    path = next(tree.root.rglob("Offline/performance/run_1/mlperf_log_detail.txt"))
    mutations.value(path, "result_validity", "INVALID")
    reason = lab.line("result_invalid_reason", "first reason | second reason")
    with path.open("a", encoding="utf-8") as file:
        file.write(reason.replace(" | ", "\n") + "\n")
    found = {each.rule: each.found for each in checks.check(tree)}
    assert found["log.lines"].endswith("has a line break in the value of result_invalid_reason")
    assert found["performance.invalid"] == "LoadGen calls it INVALID: first reason second reason"


def test_a_count_that_is_none_is_told_once(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    path = next(tree.root.rglob("systems/*.json"))
    lab.put(path, json.dumps({**json.loads(path.read_text("utf-8")), "number_of_nodes": "4, 2"}))
    assert [each.rule for each in checks.check(tree)] == ["system.field-number"]


def test_a_hash_that_was_lost_is_not_made_by_generating_again(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(scenarios=("Offline",)))
    path = next(tree.root.rglob("Offline/accuracy/accuracy.txt"))
    lab.put(path, re.sub(r"hash=\w+", "", path.read_text("utf-8")))
    mends = {each.rule: each.mend for each in checks.check(tree)}
    assert mends["accuracy.hash"].startswith("the log was cut before: give the whole")


def test_a_log_of_another_program_is_told_as_what_it_is(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    path = next(tree.root.rglob("Offline/performance/run_1/mlperf_log_detail.txt"))
    path.write_text(':::ENDPTS {"key": "loadgen_version", "value": "6.1", "metadata": {}}\n')
    told = [each.found for each in checks.check(tree) if each.rule == "log.lines"]
    assert told == ["it is a log of MLCommons' endpoints harness, and not of LoadGen"]


def test_a_summary_with_an_exponent_says_what_the_log_says(tmp_path: Path) -> None:
    """LoadGen writes results from a million samples a second on with one."""
    tree = lab.make(tmp_path / "tree", lab.Example(scenarios=("Offline",)))
    place = mutations.place(tree).cells["Offline"].run
    rate = read_detail_log(place).number("result_samples_per_second")
    assert rate
    told = r"^(Samples per second: *)[\d.]+"
    mutations.text(place / "mlperf_log_summary.txt", told, rf"\g<1>{rate / 1e6:.6f}e+06")
    assert "performance.consistent" not in broken(checks.check(tree))
    mutations.text(place / "mlperf_log_summary.txt", r"e\+06$", "e+07")
    assert "performance.consistent" in broken(checks.check(tree))


@pytest.mark.parametrize(("name", "severity"), [("3.0", "warning"), ("3.1", "error")])
def test_what_early_rounds_let_pass_empty(tmp_path: Path, name: str, severity: str) -> None:
    """SiMa's and others' accepted trees of 3.0; the checker of 3.1 was the first to refuse it."""
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    before = broken(checks.check(tree))
    site = mutations.place(tree)
    system = next((tree.root / "closed").glob("*/systems/*.json"))
    document = json.loads(system.read_text())
    document["cooling"] = ""
    del document["system_type_detail"]
    system.write_text(json.dumps(document))
    next(iter(site.cells.values())).measurements.joinpath("README.md").write_text("")
    found = [each for each in checks.check(tree) if each.rule not in before]
    assert {each.rule for each in found} == {
        *("system.field-empty", "system.field-missing", "measurements.files")
    }
    assert {each.severity for each in found} == {severity}
    del document["cooling"]
    system.write_text(json.dumps(document))
    assert "error" in {each.severity for each in checks.check(tree)}, "gone is not empty"


def test_answers_that_a_program_has_written_again_are_answers(tmp_path: Path) -> None:
    # Accepted results of round 3.0 have keys by the alphabet, one in a line.
    answers = [{"seq_id": n, "qsl_idx": 7 * n, "data": f"{n:08X}"} for n in range(300)]
    path = tmp_path / truncate.LOG
    path.write_text(json.dumps(answers, indent=2, sort_keys=True))
    assert accuracy.entries(path) == [(7 * n, f"{n:08X}") for n in range(300)]
    assert accuracy.BEGINNING.match(accuracy.shown(path))
    path.write_text('{"seq_id": 1}')
    assert not accuracy.BEGINNING.match(accuracy.shown(path))
