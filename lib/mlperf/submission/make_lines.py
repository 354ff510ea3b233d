"""Advice for a folder of make targets, as NVIDIA's guides have it: what to type there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from common.problems import Hint
from mlperf import catalog

from . import names
from .checks.base import Finding
from .commands import GENERAL
from .errors import SubmissionError

TREE = "make update_results"
AUDIT = "run_audit_harness"
_MODES = {
    "_all-modes": "SubmissionRun",
    "_accuracy-only": "AccuracyOnly",
    "_performance-only": "PerformanceOnly",
}
_CONFIGURED = "category|division|submitter|round"
_ASKING = "(?:generate again with (?:the right )?|give |say which one to submit: )"
_PHRASES = (
    (r"cm run script --tags=\S*truncate,accuracy-log", "make truncate_results"),
    (r"run with --execution_mode=(\w+)", r"set execution_mode: \1 in flow.yaml, and run again"),
    (r"run the benchmark without the form", "set form: full in flow.yaml, and run again"),
    (
        r"generate again with --system_file=FILE",
        f"add --system_file=FILE to the cm command that `{TREE}` prints",
    ),
    (rf"{_ASKING}--({_CONFIGURED})=(.+)", rf"set \1: \2 in flow.yaml, then `{TREE}`"),
    (rf"{_ASKING}--({_CONFIGURED})", rf"set \1 in flow.yaml, then `{TREE}`"),
    (r"generate (?:the tree )?(?:again|first)", f"`{TREE}`"),
)


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """A folder of make targets; ``measures`` is the target that makes runs."""

    measures: str

    def advice(self, hint: str, benchmark: str = "", scenario: str = "") -> Hint:
        """``hint`` with make commands where it has commands of cm."""
        parts = Hint(hint).parts
        for at, command in enumerate(parts):
            if match := GENERAL.search(command):
                tags = [tag for tag in match[1].split(",") if tag]
                runs = self._runs(tags, benchmark, scenario)
                then = [part for run in runs for part in (run, ", then ")]
                return Hint.of_parts((*parts[:at], *then, TREE, ""))
        text = Hint(hint).marked.replace(", finished runs are kept", "")
        for pattern, command in _PHRASES:
            text = re.sub(pattern, command, text)
        return Hint(text)

    def finding(self, finding: Finding) -> Finding:
        """A finding of the checks with advice for this folder."""
        # DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO; tests of compliance likewise.
        benchmark, scenario = [*finding.where.split("/")[4:6], "", ""][:2]
        return replace(finding, mend=self.advice(finding.mend, benchmark, scenario))

    def error(self, problem: SubmissionError) -> SubmissionError:
        """A failure with advice for this folder."""
        if problem.code == "no-results":
            hint = Hint(f"`make {self.measures}`, then `{TREE}`")
        else:
            hint = self.advice(problem.hint)
        return SubmissionError(str(problem), hint, problem.code)

    def _runs(self, tags: list[str], benchmark: str, scenario: str) -> list[str]:
        """The commands that make the runs of ``tags``, which are variations of the benchmark."""
        chosen = _chosen(benchmark, "" if "_all-scenarios" in tags else scenario)
        mode = next((mode for tag, mode in _MODES.items() if tag in tags), "")
        lines = [_line(self.measures, [*chosen, f"--test_mode={mode}"])] if mode else []
        if "_compliance" in tags:
            lines.append(_line(AUDIT, chosen))
        return lines or [_line(self.measures, chosen)]


def _chosen(benchmark: str, scenario: str) -> list[str]:
    """The words of RUN_ARGS for a benchmark and a scenario, either of which may be empty."""
    name = names.official(benchmark)
    spec = catalog.find(name, open_division=True) if name else None
    words = [f"--benchmarks={spec.family if spec else name}"] if name else []
    words += [f"--scenarios={scenario.lower()}"] if scenario else []
    return words + (["--config_ver=high_accuracy"] if name.endswith("-99.9") else [])


def _line(target: str, words: list[str]) -> str:
    return f'make {target} RUN_ARGS="{" ".join(words)}"' if words else f"make {target}"
