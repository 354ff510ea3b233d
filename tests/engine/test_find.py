"""Finding one's way: scripts by words, and what stands in the place of flags of other tools."""

from __future__ import annotations

import pytest

from lab import Lab


@pytest.fixture
def shelf(lab: Lab) -> Lab:
    lab.script("get-dataset-squad", "get,dataset,questions", name="Questions about paragraphs")
    lab.script("get-model-bert", "get,model,squad", name="A network that answers")
    lab.script("get-tool", name="A tool")
    return lab


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("squad", ["get-dataset-squad", "get-model-bert"]),
        ("*set*squad*", ["get-dataset-squad"]),
        ("QUESTIONS", ["get-dataset-squad"]),
        ("answers squad", ["get-model-bert"]),
        ("get tool", ["get-tool"]),
        ("get-tool", ["get-tool"]),
    ],
)
def test_scripts_are_found_by_any_words(text: str, found: list[str], shelf: Lab) -> None:
    answer = shelf.call("search", artifact=text).answer
    assert [item.meta["alias"] for item in answer["list"]] == found


def test_words_that_no_script_has(shelf: Lab) -> None:
    result = shelf.call("search", artifact="squid")
    assert result.answer["return"] == 16
    # Tags are asked for by their whole names.
    assert shelf.call("search", tags="squa").answer["return"] == 16


@pytest.mark.parametrize("flag", ["dry_run", "dry-run", "fake_run", "print_deps"])
def test_flags_for_a_look_lead_to_the_plan(flag: str, shelf: Lab) -> None:
    result = shelf.run("get,tool", **{flag: True})
    assert result.answer["return"] == 4
    assert "cm plan script get-tool" in result.err


def test_the_flag_for_a_container_leads_to_the_verb(shelf: Lab) -> None:
    result = shelf.run("get,tool", docker=True)
    assert result.answer["return"] == 4
    assert "cm docker script" in " ".join(result.err.split())


def test_an_unknown_flag_leads_to_the_help(shelf: Lab) -> None:
    assert "cm run script get-tool --help" in shelf.run("get,tool", zzz="1").err
