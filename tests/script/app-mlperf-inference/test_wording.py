"""What the harness and the checks of a submission print for people."""

from __future__ import annotations

import pytest

from common.problems import Hint
from common.text import aligned, wrapped


@pytest.mark.parametrize(
    "command",
    [
        "cm run script --tags=run-mlperf,inference,_compliance,_full --mode=compliance --rerun",
        "cm verify cache",
        'make run_harness RUN_ARGS="--benchmarks=bert --scenarios=offline"',
        "rm -r 'closed/me/results/system one'",
    ],
)
@pytest.mark.parametrize("end", ["", ", then again", "; or not"])
def test_a_command_is_never_parted(command: str, end: str) -> None:
    for before in range(40):
        text = Hint(f"to mend: {'a ' * before}make the runs: `{command}`{end}")
        lines = wrapped(text, "    ", "      ")
        assert sum(command in line for line in lines) == 1, lines
        assert " ".join(line.strip() for line in lines) == text
        assert all(len(line) <= 80 or command in line for line in lines)


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    rows = [("run", "rate"), ("first", "9"), ("2", "100")]
    assert aligned(rows) == ["run    rate", "first  9", "2      100"]
    assert aligned(rows, right=True) == ["run    rate", "first     9", "2       100"]
    assert aligned(rows, ruled=True)[1] == "-----  ----"
    assert aligned(rows, most=(3, 9)) == ["run  rate", "fi…  9", "2    100"]
