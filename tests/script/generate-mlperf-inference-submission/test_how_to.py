"""The how-to page: its commands have no option that the scripts do not take."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from mlperf.submission.build import MEASUREMENT_KEYS
from support import ROOT

PAGE = (ROOT / "docs/how-to/submit.md").read_text("utf-8")
SCRIPTS = {
    "generate,inference,submission": "generate-mlperf-inference-submission",
    "run,mlperf,inference,submission,checker": "run-mlperf-inference-submission-checker",
    "push,github,mlperf,inference,submission": "push-mlperf-inference-results-to-github",
    "summarize,mlperf,inference,submission": "summarize-mlperf-inference-submission",
}
COMMANDS = re.findall(r"cm run script --tags=(\S+)((?: --[^`\n]+)?)", PAGE)
GENERAL = {"quiet"}


@pytest.mark.parametrize(("tags", "words"), [each for each in COMMANDS if each[0] in SCRIPTS])
def test_every_option_on_the_page_is_an_input(tags: str, words: str) -> None:
    meta = yaml.safe_load((ROOT / "script" / SCRIPTS[tags] / "meta.yaml").read_text("utf-8"))
    known = {*meta["input_mapping"], *GENERAL}
    asked = {name.replace("-", "_") for name in re.findall(r"--([a-z_-]+)", words)}
    assert asked <= known


def test_the_description_of_a_model_on_the_page_is_whole() -> None:
    (told,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert set(json.loads(told)) == set(MEASUREMENT_KEYS)
