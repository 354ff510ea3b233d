"""The small prompts: what functions of a package do, out of a wheel that is fetched and checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
import wheel_lab
from cmbench.errors import Error
from modelzoo import wheel
from modelzoo.datasets.cnndm import docstrings, make_dataset, make_llama3
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel

customize = lab.module_of(forms.SCRIPT / "get-dataset-cnndm" / "customize.py")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PinnedWheel:
    """An index with one wheel; returns what pins it."""
    return functions_of(3, tmp_path, monkeypatch)


def functions_of(lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PinnedWheel:
    """Pin a wheel with described functions: one in three is no prose."""
    source = "".join(
        f'def function_{number}(G):\n    """Find the thing number {number} of the graph.\n\n    '
        f'{("Prose. ", "See:: ", "Words. ")[number % 3] * 30}\n\n    Parameters\n    """\n'
        for number in range(lines)
    )
    pinned = wheel_lab.make_wheel(
        tmp_path, docstrings.WHEEL.package, {f"{docstrings.PART}all.py": source.encode()}
    )
    wheel_lab.use_folder(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(docstrings, "WHEEL", pinned)
    return pinned


def test_another_file_of_that_name_is_not_used(index: PinnedWheel) -> None:
    with (
        pytest.raises(ProgramError, match=r"has sha256 .*, expected 00") as caught,
        wheel.fetched(replace(index, sha256="00")),
    ):
        pass
    assert "PIP_INDEX_URL" in caught.value.hint


def test_a_version_that_is_gone_is_named_with_a_way_on(index: PinnedWheel) -> None:
    with (
        pytest.raises(ProgramError, match=r"has no networkx==9\.9") as caught,
        wheel.fetched(replace(index, version="9.9")),
    ):
        pass
    assert "pip download --no-deps --only-binary=:all: networkx==9.9" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Failed to establish a new connection\nNo matching distribution found", "not reach its"),
        ("[Errno 28] No space left on device", "the disk is full"),
        ("something else", "did not fetch networkx==3.4.2: something else"),
        ("", "pip said nothing"),
    ],
)
def test_what_pip_says_becomes_one_error(said: str, message: str) -> None:
    error = wheel.failure(docstrings.WHEEL, said)
    assert message in str(error)
    assert error.hint


def test_the_prompts_are_descriptions_of_functions_as_a_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    functions_of(3 * docstrings.SAMPLES, tmp_path, monkeypatch)
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(json.dumps(make_llama3.tiny_tokenizer().document()))
    out = tmp_path / "out"
    out.mkdir()
    words = ["--small", "--tokenizer", str(tokenizer), "--out", str(out)]
    assert make_llama3.main(words) == 0
    facts = json.loads((out / "dataset.json").read_text())
    assert (facts["name"], facts["count"]) == ("docstrings-small", docstrings.SAMPLES)
    first = json.loads((out / make_dataset.ENTRIES).read_text())[0]
    assert first["output"] == "Find the thing number 0 of the graph."
    pieces = json.loads((out / "pieces.json").read_text())
    spelled = "".join(pieces[token] for token in first["tok_input"])
    assert "Summarize in one short sentence what the function function_0 does." in spelled


def test_too_few_functions_are_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions_of(6, tmp_path, monkeypatch)
    with pytest.raises(ProgramError, match="describes 4 functions, not 64"):
        docstrings.functions()


def test_the_script_takes_the_tokenizer_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    env: dict[str, Any] = {"CM_ML_MODEL_TOKENIZER_PATH": str(tmp_path), "CM_TMP_ML_MODEL": "llama"}
    path = str(tmp_path / "tokenizer.json")
    assert customize.of_form(env, "small") == (["--small", "--tokenizer", path], [path])
    with pytest.raises(Error, match="no small prompts for GPT-J"):
        customize.of_form({}, "small")


def test_a_wheel_without_the_member_is_refused(index: PinnedWheel) -> None:
    with (
        wheel.fetched(index) as archive,
        pytest.raises(ProgramError, match=r"has no a/b\.bin: its layout is another one"),
        wheel.member(archive, "a/b.bin"),
    ):
        pass
