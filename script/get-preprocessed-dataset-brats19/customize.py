"""Export the arrays that preprocessing has written."""

from __future__ import annotations

from modelzoo.hooks import datasets

preprocess, postprocess = datasets.made_of_cases, datasets.arrays
