"""``docs/reference/answers.md``: every command and flag that it names exists."""

from __future__ import annotations

import re

import pytest

from cmbench.cli.commands import flags_of_verb, verb_of, verbs
from support import ROOT

TEXT = (ROOT / "docs/reference/answers.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`]+)`", TEXT)
COMMANDS = sorted(
    {m for code in CODE for m in re.findall(r"cm (\w+) (script|cache|results|experiment)", code)}
)
WORDS = {"find": "search", "rm": "delete"}
OF_OTHERS = {"no_proxy", "local_path", "model_path", "tier"}  # of scripts, and columns


@pytest.mark.parametrize(("verb", "thing"), COMMANDS)
def test_the_command_exists(verb: str, thing: str) -> None:
    assert verb_of(thing, WORDS.get(verb, verb)) is not None


def test_the_flags_exist() -> None:
    asked = {m for code in CODE for m in re.findall(r"--([a-z][a-z_-]*)", code)}
    each = [flags_of_verb(thing, verb) for thing, words in verbs().items() for verb in words]
    known = {flag.partition("=")[0] for flags in each for flag in flags}
    assert asked <= known | OF_OTHERS
    assert len(COMMANDS) > 12


def test_the_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs/reference" / link).is_file(), link
