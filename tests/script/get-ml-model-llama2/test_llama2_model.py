"""Llama 2 70B: what differs from Llama 3, whose tests hold for both.

The real checkpoint (138 GB) cannot be had here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from common.problems import Problem
from modelzoo.hooks import hugging_face
from modelzoo.llama import synthetic, vocabulary
from modelzoo.llama.published import LLAMA2_70B
from modelzoo.llama.size import read_size

customize = lab.module_of(forms.SCRIPT / "get-ml-model-llama2" / "customize.py")
FULL = {"CM_ML_MODEL_NAME": "Llama-2-70b-chat-hf", "CM_DOWNLOAD_SRC": "huggingface"}
# Keys of the published config.json that describe the network.
PUBLISHED_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
}


def test_the_real_shape_has_the_published_number_of_weights() -> None:
    assert LLAMA2_70B.size.parameters == 68_976_648_192
    assert LLAMA2_70B.weight_bytes(80) == 2 * 68_976_648_192


def test_a_configuration_that_is_older_than_the_base_of_the_rotary_embedding_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED_CONFIG))
    assert read_size(tmp_path) == LLAMA2_70B.size


def test_sentence_pieces_are_known_by_their_kinds_and_joined_in_their_order() -> None:
    names = ["<unk>", "<s>", "</s>", "<0x00>", "<0xFF>", "\u2581t", "er", "\u2581the"]
    document = {
        "added_tokens": [{"id": n, "content": names[n], "special": True} for n in range(3)],
        "model": {"vocab": {name: number for number, name in enumerate(names)}, "merges": []},
    }
    read = vocabulary.of_document(document, len(names) + 1, "", 1, (2,))
    kinds = [vocabulary.UNKNOWN, *[vocabulary.CONTROL] * 2, *[vocabulary.BYTE] * 2]
    assert read.kinds == [*kinds, *[vocabulary.NORMAL] * 3, vocabulary.UNUSED]
    assert vocabulary.scores_of(read)[5:8] == [0, -1, -2]


def test_the_nameless_vocabulary_has_its_special_tokens() -> None:
    made = synthetic.nameless(LLAMA2_70B)
    assert (len(made.names), made.begin, made.ends) == (32000, 1, (2,))


def test_a_checkpoint_behind_a_licence_needs_a_token_of_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv(hugging_face.TOKEN_KEY, raising=False)
    with pytest.raises(Problem, match="Llama-2-70b-chat-hf needs an access token") as caught:
        customize.refuse({"env": dict(FULL)})
    assert "https://huggingface.co/meta-llama/Llama-2-70b-chat-hf" in caught.value.hint
    file = tmp_path / "mine"
    file.write_text("hf_secret")
    env = {**FULL, hugging_face.TOKEN_FILE_KEY: str(file)}
    assert customize.refuse({"env": env}) == {"return": 0}
    with pytest.raises(Problem, match="no --checkpoint=FOLDER") as caught:
        customize.refuse({"env": {**FULL, "CM_ML_MODEL_NAME": "Llama-2-7b-chat-hf"}})
    assert LLAMA2_70B.page in caught.value.hint


def test_more_layers_than_the_real_one_has_are_refused() -> None:
    env = {"CM_ML_MODEL_FORM": "synthetic", "CM_LLAMA2_LAYERS": "81"}
    with pytest.raises(Problem, match="a number from 1 to 80"):
        customize.preprocess({"env": env})


@pytest.mark.parametrize("framework", ["gguf", "pytorch"])
def test_the_tiny_one_is_that_of_llama_3(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {
        "CM_ML_MODEL_FORM": "tiny",
        "CM_ML_MODEL_FRAMEWORK": framework,
        "CM_ML_MODEL_PATH": str(forms.SCRIPT / "get-ml-model-llama3" / "tiny"),
    }
    assert customize.preprocess({"env": env}) == {"return": 0}
    assert customize.postprocess({"env": env})["return"] == 0
    assert env["CM_ML_MODEL_PATH"] == str(tmp_path)
    assert Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).is_file()
