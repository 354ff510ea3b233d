"""Trees that MLCommons has accepted hold no error, where checkouts of them are pointed at."""

from __future__ import annotations

import os
from pathlib import Path

import accepted_trees
import pytest

# ROUND=TREE, with spaces between: checkouts of mlcommons/inference_results_vROUND.
VARIABLE = "MLPERF_RESULTS"


def test_accepted_sites_hold_no_error() -> None:
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no checkout of accepted results")
    for told in os.environ[VARIABLE].split():
        name, _, root = told.partition("=")
        for judged in accepted_trees.judge(name, Path(root).resolve()):
            assert judged.errors == (), judged.site
