"""What the scripts of servers hand over, and what transformers serve says of itself.

The server itself is tested beside that of vLLM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import benchmark_lab as lab
from common.problems import Problem
from serving.text_server.inputs import settings_of
from serving.text_server.settings import TextServerSettings, read_arguments


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(64))
    return folder


def test_its_notes_name_its_traps_and_what_was_not_verified() -> None:
    notes = "\n".join(TextServerSettings("m", "transformers").notes())
    assert "one request at a time with --slots=1" in notes
    assert "not verified: " in notes
    assert "prompt_cache" not in notes, "it has no such switch"
    one, several = (TextServerSettings("m", "transformers", slots=count) for count in (1, 4))
    batching = "--continuous-batching"
    assert batching in several.server_command("python")
    assert batching not in one.server_command("python")
    vllm = TextServerSettings("m", "vllm", slots=8)
    assert "8 requests at a time, 4096 tokens each" in "\n".join(vllm.notes())


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_the_script_of_an_engine_hands_its_inputs_over(
    engine: str, model: Path, tmp_path: Path
) -> None:
    customize = lab.module_of(lab.SCRIPT / f"run-{engine}-server" / "customize.py")
    prefix = "CM_TEXT_SERVER_"
    env = {"CM_PYTHON_BIN_WITH_PATH": sys.executable, "CM_TMP_RUN_DIR": str(tmp_path)}
    inputs = {"HOST": "127.0.0.1", "PORT": "9", "MODEL_PATH": str(model), "SLOTS": "2"}
    env |= {f"{prefix}{name}": value for name, value in inputs.items()}
    assert customize.preprocess({"env": env}) == {"return": 0}
    words = Path(env["CM_TEXT_SERVER_ARGUMENTS"]).read_text().split("\0")[:-1]
    assert words[:2] == ["-m", "serving.text_server"]
    settings = read_arguments(words[2:])
    assert settings == TextServerSettings(str(model), engine, port=9, slots=2)
    env["CM_TEXT_SERVER_ONLY_PREPARED"] = "yes"
    assert customize.preprocess({"env": env})["skip"], "another script starts it"
    prepared = TextServerSettings(**json.loads(env["CM_TEXT_SERVER_SETTINGS"]))
    assert prepared == TextServerSettings(str(model), engine, port=0, slots=2)
    del env[f"{prefix}MODEL_PATH"]
    with pytest.raises(Problem, match="no model is named") as caught:
        settings_of(env, engine)
    assert "config.json" in caught.value.hint
