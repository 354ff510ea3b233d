"""The way between cmind and the engine, with a stand-in for each of the two."""

from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cmbench.cli import adapter


class Base:
    """Stands for cmind's base class: a verb that the engine does not know."""

    cmind: Any

    def update(self, i: dict[str, Any]) -> dict[str, Any]:
        return {"return": 0, "loaded": i["artifact"]}


class Automation(Base):
    def __init__(self, output: str = "con") -> None:
        config = {"action_substitutions": {"ls": "search", "rm": "delete"}}
        self.cmind = SimpleNamespace(cfg=config, output=output)

    def any(self, i: dict[str, Any]) -> dict[str, Any]:
        return adapter.answer("script", self, i)


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, Any]]]:
    """What reaches the engine; it fails with 16 when asked to (``fail``)."""
    calls: list[tuple[str, str, dict[str, Any]]] = []

    def handle(thing: str, verb: str, cmind: Any, i: dict[str, Any]) -> dict[str, Any]:
        calls.append((thing, verb, dict(i)))
        return {"return": 16, "error": "told already"} if "fail" in i else {"return": 0}

    cli = ModuleType("cmbench.cli.dispatch")
    cli.handle = handle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cmbench.cli.dispatch", cli)
    monkeypatch.setattr("cmbench.cli.dispatch", cli, raising=False)
    return calls


def ask(action: str, automation: Automation | None = None, **keys: Any) -> dict[str, Any]:
    return (automation or Automation()).any({"action": action, "cmd": [], "out": "con", **keys})


def test_only_a_command_of_its_own_spares_the_collector_what_is_there(handled: Any) -> None:
    """A larger program may end long after the call, with garbage among what was there."""
    gc.unfreeze()
    try:
        Automation().any({"action": "run", "out": "con"})
        assert gc.get_freeze_count() == 0
        ask("run")
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(("word", "verb"), [("run", "run"), ("ls", "search"), ("help", "help")])
def test_a_verb_reaches_the_engine_under_its_own_name(word: str, verb: str, handled: Any) -> None:
    assert ask(word)["return"] == 0
    assert [call[:2] for call in handled] == [("script", verb)]


@pytest.mark.parametrize("flag", ["h", "help"])
def test_help_is_left_to_the_engine(flag: str, handled: Any) -> None:
    assert ask("run", tags="detect,os", **{flag: True})["skip_delayed_help"]
    ((_, verb, i),) = handled
    assert verb == "run"
    assert i["help"] is True
    assert "h" not in i


def test_help_without_a_script_lists_the_commands(handled: Any) -> None:
    assert ask("run", help=True)["return"] == 0
    assert handled[0][1] == "help"


def test_a_verb_of_cmind_stays_with_cmind(handled: Any) -> None:
    assert ask("update", artifact="x") == {"return": 0, "loaded": "x"}
    assert not handled


@pytest.mark.parametrize("word", ["rnu", "any", "__init__", "cmind", "delete-all"])
def test_an_unknown_verb_is_refused(
    word: str, handled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = ask(word)
    assert result["return"] == 4
    assert f'"cm {word} script"' in result["error"]
    assert "cm help script" in capsys.readouterr().err
    assert not handled


def test_help_for_a_verb_of_cmind_runs_nothing(handled: Any) -> None:
    assert ask("update", artifact="x", help=True)["return"] == 4


def test_a_refusal_in_json_prints_nothing_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("rnu", out="json")["return"] == 4
    assert capsys.readouterr() == ("", "")


def test_cmind_does_not_repeat_a_failure(handled: Any) -> None:
    automation = Automation()
    assert ask("run", automation, fail=True)["return"] == 16
    assert automation.cmind.output == ""


def test_cmind_keeps_its_voice_otherwise(handled: Any) -> None:
    succeeded, inside, as_json = Automation(), Automation(), Automation("json")
    ask("run", succeeded)
    inside.any({"action": "run", "fail": True})
    ask("run", as_json, fail=True)
    assert (succeeded.cmind.output, inside.cmind.output) == ("con", "con")
    assert as_json.cmind.output == "json"
