"""Settings of a llama.cpp server, and one that cannot start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import python_path
from common.problems import Problem
from serving.text_server.inputs import in_package, settings_of
from serving.text_server.owned import running
from serving.text_server.refusals import require_model
from serving.text_server.settings import TextServerSettings, read_arguments

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(TEXT, st.integers(0, 65535), st.integers(1, 64), st.sampled_from(["yes", "no"]))
def test_a_command_line_is_read_as_it_was_written(
    model: str, port: int, slots: int, cache: str
) -> None:
    settings = TextServerSettings(model, port=port, slots=slots, cache=cache)
    (
        python,
        *_,
    ) = command = settings.command("python")
    assert python == "python"
    assert read_arguments(command[3:]) == settings


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path


def test_inputs_become_settings(model: Path) -> None:
    env = {
        "CM_PYTHON_BIN_WITH_PATH": sys.executable,
        "CM_TEXT_SERVER_MODEL_PATH": str(model),
        "CM_TEXT_SERVER_SLOTS": "8",
        "CM_TEXT_SERVER_PROMPT_CACHE": "no",
    }
    settings = settings_of(env, "llama", port=9)
    assert settings == TextServerSettings(str(model), port=9, slots=8, cache="no")
    assert settings.name == "tiny"
    assert not any("cached" in note for note in settings.notes())


def test_a_cache_that_is_on_is_said(model: Path) -> None:
    assert any("--prompt_cache=no" in note for note in TextServerSettings(str(model)).notes())


def test_no_model_is_named() -> None:
    with pytest.raises(Problem) as caught:
        settings_of({"CM_PYTHON_BIN_WITH_PATH": sys.executable}, "llama")
    assert caught.value.code == "needs-input"
    assert "_smollm2" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"GGU"])
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(Problem, match="no model in the format GGUF"):
        require_model(TextServerSettings(str(path)))
    with pytest.raises(Problem):
        require_model(TextServerSettings(str(tmp_path / "absent")))


def test_a_package_without_a_model_is_named() -> None:
    for name in ("json", "no_such_package_here"):
        with pytest.raises(Problem, match=name):
            in_package(sys.executable, name)


def test_a_server_that_ends_shows_its_last_lines(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libggml-cpu.so: bad ELF')\n")
    monkeypatch.setenv(python_path.VARIABLE, str(tmp_path))
    folder = tmp_path / "server"
    with pytest.raises(Problem) as caught, running(TextServerSettings(str(model)), folder):
        pass
    assert "has ended" in caught.value.message
    assert any("bad ELF" in line for line in caught.value.context)
