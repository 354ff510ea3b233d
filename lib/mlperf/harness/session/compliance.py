"""Making the compliance tests of a scenario, and laying their results out as the rules ask."""

from __future__ import annotations

import hashlib
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf.catalog import Scenario

from .. import records
from ..jobs import ComparisonFigures, LogComparison
from ..measuring import detail_log, verify
from ..measuring.accuracy_log import read_logged
from ..measuring.telemetry import Telemetry
from ..measuring.verdict import RuleViolation, laid_to
from ..measuring.verify import VerificationResult
from ..reporting.results import RESULT_FILE, ComplianceResult, PerformanceResult, staging_folder
from ..settings import ACCURACY, PERFORMANCE, Targets
from ..tuning import targets
from .context import Context
from .launch import say
from .performance import DETAIL

# Logging answers costs a little: leave Server some room, as a run at the limit would fail by it.
SERVER_MARGIN = 0.97
LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")
ANSWERS = "mlperf_log_accuracy.json"


@dataclass(frozen=True, slots=True)
class JudgedTest:
    """A test that was run and judged.

    ``short`` says that it or the submitted run is shorter than the rules want: the speeds of runs
    of some seconds differ by chance.
    """

    speed: VerificationResult | None
    content: VerificationResult | None
    outcome_versions: dict[str, str]
    seen: Telemetry
    short: bool = False

    @property
    def checks(self) -> tuple[VerificationResult, ...]:
        """Return the verifications that this test has."""
        return tuple(check for check in (self.content, self.speed) if check is not None)


def measure(context: Context, scenario: Scenario, test: str) -> str:
    """Run a test and verify it; the answer says why it was not made, or is empty."""
    submitted = context.tree.performance(scenario)
    missing = _missing(context, scenario, test)
    if submitted is None or missing:
        reason = f"{scenario} {test}: not made, there is no {missing} run to compare it with"
        say(reason)
        return reason
    began = time.monotonic()
    with staging_folder(context.tree.scenario(scenario), test) as folder:
        tested = _until_passed(context, scenario, test, submitted, folder)
        _lay_out(folder, test, tested)
        result = _result(context, scenario, test, tested, time.monotonic() - began)
        records.write(folder / RESULT_FILE, result)
        context.tree.publish(folder, scenario, test)
    say(f"{scenario} {test}: {'passed' if result.passed else 'FAILED'}, {result.seconds:.0f} s")
    for fault in result.faults:
        say(f"  {fault.text}")
    return ""


def _missing(context: Context, scenario: Scenario, test: str) -> str:
    """The kind of run that a test is compared with and that is not there; empty where it is."""
    submitted = context.tree.performance(scenario)
    if submitted is None or submitted.validity != "VALID":
        return "VALID performance"
    return "accuracy" if test == "TEST01" and context.tree.accuracy(scenario) is None else ""


def _result(
    context: Context, scenario: Scenario, test: str, tested: JudgedTest, seconds: float
) -> ComplianceResult:
    speed = tested.speed
    return ComplianceResult(
        fingerprint=context.fingerprint(scenario, test),
        scenario=scenario,
        test=test,
        passed=all(check.passed for check in tested.checks),
        lines=tuple(line for check in tested.checks for line in check.lines),
        faults=laid_to(tested.seen.taken, _faults(test, tested)),
        value=speed.value if speed else None,
        reference=speed.reference if speed else None,
        unit=scenario.result.unit,
        seconds=seconds,
        circumstances=context.circumstances(scenario, tested.outcome_versions, tested.seen),
    )


def _until_passed(
    context: Context, scenario: Scenario, test: str, submitted: PerformanceResult, folder: Path
) -> JudgedTest:
    """Run the test again while only its speed is wrong and attempts are left."""
    aim = _aim(submitted.targets, scenario)
    for left in reversed(range(context.settings.attempts)):
        tested = _run(context, scenario, test, submitted, aim, folder)
        wrong_answers = tested.content is not None and not tested.content.passed
        if not left or wrong_answers or all(check.passed for check in tested.checks):
            break
        if not targets.fixed_by_user(context.settings.overrides, scenario):
            aim = targets.adjusted(aim, detail_log.read(folder / DETAIL), scenario) or aim
        say(f"{scenario} {test}: {'; '.join(tested.checks[-1].lines)}; again")
        shutil.rmtree(folder)
        folder.mkdir()
    return tested


def _run(
    context: Context,
    scenario: Scenario,
    test: str,
    submitted: PerformanceResult,
    aim: Targets,
    folder: Path,
) -> JudgedTest:
    audit = verify.audit_config(test, context.rules.test01_samples if context.rules else 4096)
    run = context.run_settings(scenario, PERFORMANCE, aim, folder, audit)
    # Figures can only be compared when the machine is divided in the same way.
    run = replace(run, shape=submitted.shape)
    outcome, seen = context.launch(run, folder, test)
    logs = folder / "run_1"
    content: VerificationResult | None = None
    if test == "TEST01":
        content = _answers(context, scenario, logs / ANSWERS, folder)
    if test == "TEST06":
        options = context.settings.model_of(scenario).options
        end, dtype = int(options.get("end_token", 2)), str(options.get("token_dtype", "int32"))
        content = verify.tokens(logs / ANSWERS, scenario, dtype, end)
        return JudgedTest(None, content, outcome.versions, seen)
    before = detail_log.read(Path(submitted.log_dir) / "mlperf_log_detail.txt")
    made = detail_log.read(folder / DETAIL)
    speed = verify.performance(test, scenario, before, made)
    rules = context.rules
    short = rules is not None and any(verify.is_short(state, rules) for state in (before, made))
    return JudgedTest(speed, content, outcome.versions, seen, short)


def _aim(submitted: Targets, scenario: Scenario) -> Targets:
    if scenario.online and submitted.qps is not None:
        return replace(submitted, qps=SERVER_MARGIN * submitted.qps)
    return submitted


def _answers(context: Context, scenario: Scenario, log: Path, folder: Path) -> VerificationResult:
    """Equal answers pass; where they differ, their accuracy decides."""
    submitted = context.tree.place(scenario, ACCURACY) / ANSWERS
    check = verify.answers(submitted, log)
    if check.passed or not read_logged(log):
        return check
    settings = context.settings
    request = LogComparison(
        settings.benchmark, settings.dataset, settings.model_of(scenario), str(submitted), str(log)
    )
    place = folder / "compare"
    place.mkdir()
    context.launcher.execute("compare", place, request, f"{scenario} TEST01 accuracy", 5.0)
    compared = records.read(ComparisonFigures, place / "outcome.json")
    (folder / "baseline_accuracy.txt").write_text(compared.baseline.line + "\n", encoding="utf-8")
    (folder / "compliance_accuracy.txt").write_text(compared.test.line + "\n", encoding="utf-8")
    allowed = context.rules.accuracy_delta_percent if context.rules else 1.0
    near = verify.nearly_equal(compared.baseline.value, compared.test.value, allowed)
    return VerificationResult(near.passed, (*check.lines, *near.lines), near.value, near.reference)


def _lay_out(folder: Path, test: str, tested: JudgedTest) -> None:
    """performance/run_1 with two logs, accuracy/ with what was answered, and the verdicts."""
    logs, performance = folder / "run_1", folder / "performance" / "run_1"
    performance.mkdir(parents=True)
    for name in LOGS:
        shutil.move(str(logs / name), performance / name)
    if test in ("TEST01", "TEST06"):
        accuracy = folder / "accuracy"
        accuracy.mkdir()
        shutil.move(str(logs / ANSWERS), accuracy / ANSWERS)
        if test == "TEST01":
            digest = hashlib.sha256((accuracy / ANSWERS).read_bytes()).hexdigest()
            (accuracy / "accuracy.txt").write_text(f"hash={digest}\n", encoding="utf-8")
            for name in ("baseline_accuracy.txt", "compliance_accuracy.txt"):
                if (folder / name).exists():
                    shutil.move(str(folder / name), accuracy / name)
    shutil.rmtree(logs)
    for name, check in (("accuracy", tested.content), ("performance", tested.speed)):
        if check is not None:
            text = "\n".join(check.lines) + "\n"
            (folder / f"verify_{name}.txt").write_text(text, encoding="utf-8")


def _faults(test: str, tested: JudgedTest) -> list[RuleViolation]:
    faults = []
    if tested.content is not None and not tested.content.passed:
        faults.append(
            RuleViolation(
                f"{test} accuracy",
                "; ".join(tested.content.lines),
                "a system must answer under load as it does in the accuracy run; look at "
                "verify_accuracy.txt",
            )
        )
    if tested.speed is not None and not tested.speed.passed:
        faults.append(
            RuleViolation(
                f"{test} performance",
                "; ".join(tested.speed.lines),
                "run the test again on a quiet machine (--rerun), or measure the performance "
                "again: the two must be alike",
                short=tested.short,
            )
        )
    return faults
