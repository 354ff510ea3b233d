"""Hand out the arrays that a program of src has written."""

from __future__ import annotations

from cmbench.lib import siblings

datasets = siblings.hooks(__file__, "datasets")

preprocess, postprocess = datasets.made_of_cases, datasets.arrays
