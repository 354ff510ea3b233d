"""The forms of a benchmark: what is measured in the place of the real model and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """A form by its name; no result of one is a submission.

    ``fine_print`` is printed below its results. A search for the rates of a ``brief`` one is short.
    """

    name: str
    fine_print: str
    brief: bool = False


TINY = Form(
    "tiny",
    "Tiny form: shows that everything works, and how fast this path is; it is not an MLPerf "
    "submission result.",
    brief=True,
)
SYNTHETIC = Form(
    "synthetic",
    "Random weights: the real architecture and size, with weights from a seed, on samples of "
    "noise. Only the speed means something; its accuracy is not judged, and it is not an MLPerf "
    "submission result.",
)
SMALL = Form(
    "small",
    "Small form: a real model of another size on other data. Its accuracy is that model's own and "
    "not MLPerf's, and it is not an MLPerf submission result.",
    brief=True,
)
FORMS: Mapping[str, Form] = {form.name: form for form in (TINY, SYNTHETIC, SMALL)}
# The forms that every benchmark has, unless it refuses one.
USUAL = (TINY.name, SYNTHETIC.name)
