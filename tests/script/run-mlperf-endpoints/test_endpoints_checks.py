"""Trees of MLPerf Endpoints: accepted ones, and wrong changes that our checks and theirs find."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mlperf_endpoints_lab as lab
from mlperf.endpoints import checks, rules
from mlperf.submission.checks.base import ERROR
from mlperf_endpoints_lab import EndpointsTree

Change = Callable[[EndpointsTree], None]


def _runtime(name: str, value: object) -> Change:
    def change(tree: EndpointsTree) -> None:
        settings = lab.get(tree.curve / "r22/point.yaml")["runtime_settings"]
        settings["runtime"][name] = value
        tree.edit("r22/point.yaml", runtime_settings=settings)

    return change


def _edit(name: str, **more: object) -> Change:
    return lambda tree: tree.edit(name, **more)


def _everywhere(name: str, **more: object) -> Change:
    def change(tree: EndpointsTree) -> None:
        for folder in tree.curve.iterdir():
            tree.edit(f"{folder.name}/{name}", **more)

    return change


def _remove(name: str) -> Change:
    def change(tree: EndpointsTree) -> None:
        path = tree.root / name.replace("CURVE", str(tree.curve.relative_to(tree.root)))
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def _without(*names: str) -> Change:
    def change(tree: EndpointsTree) -> None:
        for name in names:
            shutil.rmtree(tree.curve / name)

    return change


def _judge(name: str) -> Change:
    return lambda tree: lab.put(tree.curve / f"{name}/accuracy_results.json", lab.accuracy())


def _score(metric: str, value: object) -> Change:
    def change(tree: EndpointsTree) -> None:
        document = lab.accuracy()
        document["accuracy_scores"][0]["score"][metric] = value
        lab.put(tree.curve / "r7/accuracy_results.json", document)

    return change


def _few_samples(tree: EndpointsTree) -> None:
    document = lab.accuracy()
    document["accuracy_scores"][0]["unit_samples"] = 5000
    lab.put(tree.curve / "r7/accuracy_results.json", document)


def _no_slow_token(tree: EndpointsTree) -> None:
    tpot = lab.get(tree.curve / "r22/result_summary.json")["tpot"]
    del tpot["percentiles"]["90.0"]
    tree.edit("r22/result_summary.json", tpot=tpot)


def _power(name: str, value: object) -> Change:
    def change(tree: EndpointsTree) -> None:
        path = tree.system / "system_power.json"
        document = lab.get(path)
        document["node_sets"][0]["published_power"][name] = value
        lab.put(path, document)

    return change


def _broken(tree: EndpointsTree) -> None:
    (tree.curve / "r22/result_summary.json").write_text("{", encoding="utf-8")


def _short_name(tree: EndpointsTree) -> None:
    _everywhere("system_desc.json", shortened_system_name="a name of more than twenty")(tree)


WRONG: dict[str, tuple[str, Change]] = {
    "no docs": ("endpoints.tree", _remove("docs")),
    "no sources": ("endpoints.tree", _remove("src")),
    "no README": ("endpoints.tree", _remove("src/server/README.md")),
    "no point.yaml": ("endpoints.files", _remove("CURVE/r22/point.yaml")),
    "no config.yaml": ("endpoints.files", _remove("CURVE/r22/config.yaml")),
    "no summary": ("endpoints.files", _remove("CURVE/r22/result_summary.json")),
    "no description": ("endpoints.files", _remove("CURVE/r22/system_desc.json")),
    "half a summary": ("endpoints.files", _broken),
    "six points": ("endpoints.count", _remove("CURVE/r75")),
    "no medium point": ("endpoints.coverage", _without("r22", "r41")),
    "no Offline point": ("endpoints.offline", _edit("r256/point.yaml", offline="none")),
    "another one elected": ("endpoints.offline", _edit("r75/point.yaml", offline="elected")),
    "C_max too low": (
        "endpoints.regions",
        _everywhere("system_desc.json", max_supported_concurrency=32),
    ),
    "a point above C_max": (
        "endpoints.regions",
        _everywhere("system_desc.json", max_supported_concurrency=200),
    ),
    "another dataset": ("endpoints.curve", _edit("r22/point.yaml", dataset="open_orca")),
    "upstream's spelling": ("endpoints.model", _everywhere("point.yaml", model_name="llama3.1-8b")),
    "another seed": ("endpoints.seeds", _runtime("scheduler_rng_seed", 42)),
    "no model seed": ("endpoints.seeds", _runtime("model_seed", None)),
    "unknown seeds": ("endpoints.seeds", _everywhere("point.yaml", seed_set="B")),
    "two seed sets": ("endpoints.seeds", _edit("r22/point.yaml", seed_set="B")),
    "a late cohort": ("endpoints.seeds", _everywhere("point.yaml", target_cohort="2027-02-C0")),
    "no cohort": ("endpoints.disclosure", _edit("r22/point.yaml", target_cohort="November")),
    "no precision": ("endpoints.disclosure", _edit("r22/point.yaml", model_precision=None)),
    "a region of its own": ("endpoints.disclosure", _edit("r22/point.yaml", region="middle")),
    "no warm-up": ("endpoints.warmup", _edit("r22/point.yaml", warmup=None)),
    "sources elsewhere": ("endpoints.shared", _edit("r22/point.yaml", shared_src="src/none")),
    "Poisson": (
        "endpoints.load",
        _edit(
            "r22/point.yaml",
            runtime_settings={
                "load_pattern": "poisson",
                "runtime": rules.PUBLISHED[0].seeds,
            },
        ),
    ),
    "requests lost": ("endpoints.figures", _edit("r22/result_summary.json", n_samples_failed=3)),
    "no time": ("endpoints.figures", _edit("r22/result_summary.json", duration_ns=0)),
    "no TPOT p90": ("endpoints.figures", _no_slow_token),
    "another throughput": ("endpoints.figures", _edit("r22/result_summary.json", system_tps=9e5)),
    "another speed": ("endpoints.figures", _edit("r22/result_summary.json", tps_per_user=1e4)),
    "half the data": (
        "endpoints.queries",
        _edit("r22/result_summary.json", n_samples_issued=6000, n_samples_completed=6000),
    ),
    "no accuracy": ("endpoints.accuracy-runs", _remove("CURVE/r7/accuracy_results.json")),
    "one accuracy run more": ("endpoints.accuracy-runs", _judge("r41")),
    "bad answers": ("endpoints.accuracy", _score("rouge1", "37.0")),
    "long answers": ("endpoints.accuracy", _score("gen_len", 9e6)),
    "few answers": ("endpoints.accuracy", _few_samples),
    "another system": ("endpoints.one-system", _edit("r22/system_desc.json", system_size="2")),
    "no driver": ("endpoints.system", _everywhere("system_desc.json", node_types=[{}])),
    "a long name": ("endpoints.system", _short_name),
    "no address": ("endpoints.system", _everywhere("system_desc.json", availability_url="")),
    "another share": ("endpoints.utilization", _edit("r22/system_desc.json", tps_utilization=0.01)),
    "no power": ("endpoints.power", lambda tree: (tree.system / "system_power.json").unlink()),
    "power by word of mouth": ("endpoints.power", _power("source", "our lab")),
    "power twice": ("endpoints.power", _power("value_w", 10200)),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> EndpointsTree:
    return lab.make_tree(tmp_path_factory.mktemp("good"), "Standardized")


def _copy(good: EndpointsTree, folder: Path) -> EndpointsTree:
    root = folder / "tree"
    shutil.copytree(good.root, root)
    parts = (good.system, good.curve)
    return EndpointsTree(root, *(root / path.relative_to(good.root) for path in parts))


def official_errors(root: Path) -> list[str]:
    """Return the rules that MLCommons' checker says are broken."""
    checker = pytest.importorskip("submission_checker.checker")
    report = checker.SubmissionChecker(root).run()
    return [result.rule for result in report.errors]


@pytest.mark.parametrize("division", ["RDI", "Standardized"])
@pytest.mark.parametrize("offline", [rules.ELECTED, rules.DEDICATED])
def test_a_submission_that_is_accepted(tmp_path: Path, division: str, offline: str) -> None:
    tree = lab.make_tree(tmp_path, division, offline)
    assert checks.check(tree.root) == []
    assert checks.check(tree.root.parent) == []
    assert official_errors(tree.root) == []


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_change_is_found_by_both(tmp_path: Path, good: EndpointsTree, what: str) -> None:
    rule, change = WRONG[what]
    tree = _copy(good, tmp_path)
    change(tree)
    broken = {finding.rule for finding in checks.check(tree.root) if finding.severity == ERROR}
    assert rule in broken
    assert official_errors(tree.root), what


def test_files_of_other_runs_are_found_by_us_alone(tmp_path: Path, good: EndpointsTree) -> None:
    tree = _copy(good, tmp_path)
    lab.put(tree.curve / "r22/config.yaml", lab.config(64, 700))
    findings = [finding for finding in checks.check(tree.root) if finding.severity == ERROR]
    assert [finding.rule for finding in findings] == ["endpoints.client"]
    assert "64 in flight in config.yaml, 22 in point.yaml" in findings[0].found


def test_warnings_refuse_nothing(tmp_path: Path, good: EndpointsTree) -> None:
    tree = _copy(good, tmp_path)
    tree.edit("r22/point.yaml", region="low_concurrency")
    tree.edit("r75/result_summary.json", duration_ns=int(60e9))
    findings = checks.check(tree.root)
    assert {finding.rule for finding in findings} == {"endpoints.region", "endpoints.duration"}
    assert not checks.refused(findings)


def test_what_is_said_of_a_finding(tmp_path: Path, good: EndpointsTree) -> None:
    tree = _copy(good, tmp_path)
    _without("r22", "r41")(tree)
    (finding,) = (f for f in checks.check(tree.root) if f.rule == "endpoints.coverage")
    assert finding.found == "no point from 11 to 44 (medium)"
    assert finding.source == "Endpoints rules 5.3, 5.4"
    assert finding.mend == "run one from 11 to 44"
