"""Finding one's way: scripts by words, and what stands in the place of flags of other tools."""

from __future__ import annotations

import json
from pathlib import Path

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
        ("Which network is for my SQuAD?", ["get-model-bert"]),
        ("a", ["get-dataset-squad", "get-model-bert", "get-tool"]),
    ],
)
def test_scripts_are_found_by_any_words(text: str, found: list[str], shelf: Lab) -> None:
    answer = shelf.call("search", artifact=text).answer
    assert [item.meta["alias"] for item in answer["list"]] == found


def test_words_need_no_quotes_and_may_describe_an_input(shelf: Lab) -> None:
    def found(*words: str) -> list[tuple[str, ...]]:
        answer = shelf.call("search", artifact=words[0], artifacts=list(words[1:])).answer
        return [(item["alias"], *item.get("matches", ())) for item in answer["list"]]

    assert [name for name, *_ in found("answers", "squad")] == ["get-model-bert"]
    described = {"model_path": {"desc": "a file of your own"}}
    shelf.script("run-it", input_mapping={"model_path": "CM_OWN"}, input_description=described)
    assert [name for name, *_ in found("own", "file")] == ["run-it"]
    assert [name for name, *_ in found("model_path")] == ["run-it"]


def test_a_pattern_is_of_names_first(shelf: Lab) -> None:
    shelf.script("run-get-tool")
    found = shelf.call("search", artifact="get-t*").answer["list"]
    assert [item["alias"] for item in found] == ["get-tool"]
    found = shelf.call("search", artifact="*questions*").answer["list"]
    assert [item["alias"] for item in found] == ["get-dataset-squad"]


def test_words_that_no_script_has(shelf: Lab) -> None:
    assert shelf.call("search", artifact="squid").answer["list"] == []
    found = shelf.call("search", artifact="html squad tool")
    assert found.answer["list"] == []
    both = "cm find script squad, cm find script tool"
    assert both in " ".join(found.err.split())
    # Tags are asked for by their whole names.
    assert shelf.call("search", tags="squa").answer["list"] == []


@pytest.mark.parametrize("flag", ["dry_run", "dry-run", "fake_run", "print_deps"])
def test_flags_for_a_look_lead_to_the_plan(flag: str, shelf: Lab) -> None:
    result = shelf.run("get,tool", **{flag: True})
    assert result.answer["return"] == 4
    assert "cm plan script get-tool" in result.err


def test_the_flag_for_a_container_leads_to_the_verb(shelf: Lab) -> None:
    result = shelf.call("doctor", tags="get,tool", docker=True)
    assert result.answer["return"] == 4
    assert "cm docker script" in " ".join(result.err.split())


def test_an_unknown_flag_leads_to_the_help(shelf: Lab) -> None:
    assert "cm run script get-tool --help" in shelf.run("get,tool", zzz="1").err


@pytest.fixture
def two(lab: Lab, tmp_path: Path) -> Lab:
    """The same script in the lab's repository and in another one."""
    other = Lab.__new__(Lab)
    other.repo, other._count = tmp_path / "them@theirs", 0
    (other.repo / "script").mkdir(parents=True)
    (other.repo / "cmr.yaml").write_text("alias: them@theirs\nuid: 0123456789abcdef\n")
    for shelf, whose in ((lab, "ours"), (other, "theirs")):
        shelf.script("detect-x", env={"WHOSE": whose}, new_env_keys=["WHOSE"])
    lab.others.append(other.repo)
    return lab


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("detect-x", "ours"),
        ("lab:detect-x", "ours"),
        ("them@theirs:detect-x", "theirs"),
        ("0123456789abcdef:detect-x", "theirs"),
        ("them@theirs,0123456789abcdef:detect-x", "theirs"),
    ],
)
def test_a_repository_before_a_name_is_obeyed(two: Lab, name: str, whose: str) -> None:
    assert two.call("run", artifact=name).env == {"WHOSE": whose}
    found = two.call("search", artifact=name).answer["list"]
    assert len(found) == (2 if name == "detect-x" else 1)


def test_the_repository_of_the_current_directory(two: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = two.call("run", artifact=".:detect-x")
    assert refused.answer["return"] == 16
    monkeypatch.chdir(two.others[0])
    assert two.call("run", artifact=".:detect-x").env == {"WHOSE": "theirs"}


@pytest.mark.parametrize("name", ["nosuch:detect-x", "them@their:detect-x"])
def test_a_repository_that_is_not_there(two: Lab, name: str) -> None:
    for verb in ("run", "plan", "search"):
        refused = two.call(verb, artifact=name)
        assert refused.answer["code"] == "script-not-found"
        assert "them@theirs" in refused.err


def test_what_was_taken_says_how_to_take_the_other(two: Lab) -> None:
    assert "them@theirs:detect-x" in two.run("detect,x").err


def test_a_meta_that_cannot_be_read_is_named_where_its_tags_are_asked_for(lab: Lab) -> None:
    path = lab.script("get-bad", tags="get,bad")
    (path / "meta.yaml").write_text("alias: get-bad\ntags: [get, bad]\ndeps: [\n  x: {\n")
    failed = lab.run("get,bad")
    assert failed.answer["code"] == "bad-meta"
    assert f"{path}/meta.yaml:5:1: not valid YAML" in failed.err.replace("\n      ", "")
    assert "next:" in failed.err
    assert lab.run("get,nothing").answer["code"] == "script-not-found"


def test_bounds_for_a_script_without_a_version_say_what_to_do(lab: Lab) -> None:
    lab.script("get-v", tags="get,v", cache=True)
    failed = lab.call("run", own=True, tags="get,v", version_min="zz")
    assert failed.answer["code"] == "version-not-found"
    assert "next:" in failed.err


def test_a_search_knows_the_values_of_inputs(lab: Lab) -> None:
    model = {"input_mapping": {"model": "CM_MODEL"}}
    choices = {"input_description": {"model": {"desc": "m", "choices": ["bert-99", "rnnt"]}}}
    lab.script("get-bert-data")
    lab.script("run-all", **model, **choices)
    lab.script("get-other")
    shown = lab.call("search", artifact="bert").out
    assert shown.index("run-all") < shown.index("get-bert-data")
    assert "  with --model=bert-99\n" in shown
    assert "get-other" not in shown
    listed = json.loads(lab.call("search", artifact="run rnnt", json=True).out)
    assert [item["alias"] for item in listed] == ["run-all"]


def test_an_empty_search_suggests_the_nearest_word(lab: Lab) -> None:
    lab.script(
        "run-all",
        input_mapping={"model": "CM_MODEL"},
        input_description={"model": {"desc": "m", "choices": ["resnet50"]}},
    )
    assert 'did you mean "resnet50"?' in lab.call("search", artifact="resent50").err
