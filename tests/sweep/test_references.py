"""Reference values: written from a run, compared with bounds, a failure where they do not hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cmbench.errors import Error
from cmbench_sweep.references import (
    FigureReference,
    ReferenceEntry,
    compare,
    read_references,
    tolerance_of,
)
from cmbench_sweep.values import FAILED, MEASURED, PointOutcome, SweepPoint, SweepRun
from support import Finished

RUN = ("run", "experiment", "--sweep=sweep.yaml")


def point(key: str, **flags: object) -> SweepPoint:
    return SweepPoint(1, key, flags, {"tags": "a,b", **flags})


def measured(key: str, **figures: float) -> PointOutcome:
    return PointOutcome(key, MEASURED, (SweepRun(figures, 1.0),))


@pytest.mark.parametrize(
    ("lower", "upper", "value", "allowed"),
    [
        (-0.05, 0.1, 95, True),
        (-0.05, 0.1, 94.9, False),
        (-0.05, 0.1, 110, True),
        (-0.05, 0.1, 110.1, False),
        (None, 0.1, 1, True),
        (-0.05, None, 1000, True),
        (0.0, 0.0, 100, True),
    ],
)
def test_bounds_are_shares_of_the_reference(
    lower: float | None, upper: float | None, value: float, allowed: bool
) -> None:
    assert FigureReference(100, lower, upper).allows(value) is allowed
    # The bounds of a negative reference are on its own two sides.
    assert FigureReference(-100, lower, upper).allows(value - 200) is allowed


def test_the_most_specific_reference_counts() -> None:
    entries = [
        ReferenceEntry("lab:gpu", {"size": "1"}, {"rate": FigureReference(4)}),
        ReferenceEntry("", {}, {"rate": FigureReference(1), "delay": FigureReference(9)}),
        ReferenceEntry("lab", {}, {"rate": FigureReference(2)}),
        ReferenceEntry("lab", {"size": "1"}, {"rate": FigureReference(3)}),
    ]
    points = [point("a", size="1"), point("b", size="2"), point("c", size="1")]
    outcomes = {p.key: measured(p.key, rate=1.0) for p in points[:2]}
    outcomes["c"] = PointOutcome("c", FAILED)

    def rates(site: str) -> list[float]:
        rows = compare(entries, points, outcomes, site)
        assert set(rows) == {"a", "b"}
        assert [c.passed for row in rows.values() for c in row if c.figure == "delay"] == [
            False
        ] * 2
        return [c.reference.value for row in rows.values() for c in row if c.figure == "rate"]

    assert rates("") == [1, 1]
    assert rates("lab:cpu") == [3, 2]
    assert rates("lab:gpu") == [4, 2]
    assert rates("other") == [1, 1]


def test_the_order_of_tags_is_of_no_account() -> None:
    entry = ReferenceEntry("", {"tags": "a,b"}, {"rate": FigureReference(1)})
    (row,) = compare([entry], [point("a", tags="b,a")], {"a": measured("a", rate=1.0)}, "").values()
    assert [comparison.passed for comparison in row] == [True]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("references: [{figures: {rate: {value: x}}}]", "references[0].figures.rate.value: 'x'"),
        ("references: [{figures: {rate: {value: 1, lower: 5%}}}]", "lower is at most 0"),
        ("references: [{figures: {rate: {value: 1, lowre: 5%}}}]", 'did you mean "lower"?'),
        ("references: [{site: a}]", "references[0]: it has no figures"),
        ("[1]", "the file: [1] is not a mapping"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "reference.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Error) as caught:
        read_references(str(path))
    assert any(fault in line for line in caught.value.context)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.2", 0.2), ("2.5 %", 0.025)])
def test_tolerances(text: str, share: float) -> None:
    assert tolerance_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "0", "-5%", "x", "yes"])
def test_tolerances_that_are_none(text: str) -> None:
    with pytest.raises(Error, match="is not a share"):
        tolerance_of(text)


def test_a_sweep_is_compared_with_what_another_one_wrote(
    cm: Callable[..., Finished], world: Path
) -> None:
    path = world / "reference.yaml"
    done = cm(*RUN, "--write-reference", "--tolerance=10%").ok()
    assert "reference.yaml: 6 points written as reference" in done.stdout
    assert "reference.yaml: 12 of 12 figures within bounds" in done.stdout
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    first = data["references"][0]
    assert first["configuration"] == {"tags": "measure,nothing", "size": "1", "threads": "1"}
    assert first["figures"]["rate"] == {"value": 99.0, "lower": "-10%", "upper": "10%"}
    # Another system would have given 300, within bounds of its own.
    first["figures"]["rate"] = {"value": 300, "lower": "-5%", "upper": None, "unit": "images/s"}
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    done = cm(*RUN, "--reference=reference.yaml")
    assert done.status == 1
    fail = "FAIL  rate 99 images/s (-67.0 %), reference 300 (-5 % … any)  size=1 threads=1"
    assert fail in done.stdout
    assert "     FAIL  size=1 threads=1" in done.stdout
    assert "     pass  size=4 threads=2" in done.stdout
    assert "[out-of-bounds]: 1 of 12 figures out of the bounds of reference.yaml" in done.stderr
    shown = cm("show", "experiment", "sweep", "--reference=reference.yaml", "--json")
    assert shown.status == 1
    row = json.loads(shown.stdout)["points"][0]["reference"][0]
    assert (row["figure"], row["reference"], row["passed"]) == ("rate", 300, False)
    # What is written anew keeps the bounds that somebody chose.
    cm("show", "experiment", "sweep", "--write-reference=reference.yaml").ok()
    (again,) = [
        entry["figures"]["rate"]
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["references"]
        if entry["configuration"]["size"] + entry["configuration"]["threads"] == "11"
    ]
    assert again == {"value": 99.0, "lower": "-5%", "upper": None, "unit": "images/s"}


def test_a_sweep_names_its_reference_and_a_site_has_its_own(
    cm: Callable[..., Finished], world: Path
) -> None:
    text = (world / "sweep.yaml").read_text(encoding="utf-8")
    text = text.replace("[1, 2, 4]", "[1]").replace("[1, 2]", "[1]")
    (world / "sweep.yaml").write_text(text + "reference: ref.yaml\n", encoding="utf-8")
    (world / "lab.yaml").write_text("description: here\n", encoding="utf-8")
    done = cm(*RUN)
    assert "ref.yaml: No such file" in done.stderr
    assert not (world / "count").exists(), "it is said before anything is measured"
    cm(*RUN, "--site=lab.yaml", "--write-reference").ok()
    assert yaml.safe_load((world / "ref.yaml").read_text("utf-8"))["references"][0]["site"] == "lab"
    done = cm(*RUN)
    assert "has no reference for any measured point" in done.stderr
    assert done.status == 1
    cm("show", "experiment", "sweep@lab").ok()
    assert "2 of 2 figures within bounds" in cm(*RUN, "--site=lab.yaml").ok().stdout
