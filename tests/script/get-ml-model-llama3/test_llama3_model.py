"""Llama 3: files of every engine out of the same weights, and permission before a download.

The real checkpoint (16 GB) cannot be had here; these have its names and files and are narrower. The
tiny one was compared by hand with Hugging Face's class and with llama.cpp: all answers are equal.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from common.problems import Problem
from modelzoo.datasets.cnndm import make_llama3
from modelzoo.hooks import hugging_face
from modelzoo.hugging_face import HuggingFaceCheckpoint
from modelzoo.llama import convert, fetch, folder, gguf_file, synthetic
from modelzoo.llama.published import LLAMA3_8B
from modelzoo.llama.size import LlamaSize, read_size
from modelzoo.program import ProgramError
from support import Home, python_env, run

customize = lab.module_of(forms.SCRIPT / "get-ml-model-llama3" / "customize.py")
NARROW = LlamaSize(
    vocabulary=len(make_llama3.tiny_tokenizer().names),
    width=16,
    inner=24,
    layers=2,
    heads=4,
    key_heads=2,
    context=64,
)
FULL = {"CM_ML_MODEL_NAME": "Llama-3.1-8B-Instruct", "CM_DOWNLOAD_SRC": "huggingface"}
ENDS = [make_llama3.END_TOKEN, 2, 3]


def weights_of(size: LlamaSize) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        name: generator.normal(size=shape).astype(np.float16).astype(np.float32)
        for name, shape in size.shapes().items()
    }


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of the real layout, with the rotary embedding of Llama 3.1."""
    source = tmp_path / "checkpoint"
    source.mkdir()
    document = make_llama3.tiny_tokenizer().document()
    folder.write_config(source, NARROW, document, make_llama3.BEGIN_TOKEN, ENDS)
    arrays = folder.ArrayWeights(weights_of(NARROW))
    folder.write_safetensors(arrays, NARROW, source / folder.SAFETENSORS, "F32")
    return source


def test_the_real_shape_has_the_published_number_of_weights() -> None:
    assert LlamaSize().parameters == 8_030_261_248


def test_a_checkpoint_is_read_as_it_was_written(checkpoint: Path) -> None:
    assert read_size(checkpoint) == NARROW
    read = HuggingFaceCheckpoint(checkpoint)
    assert read.names() == set(NARROW.shapes())
    for name, array in weights_of(NARROW).items():
        np.testing.assert_array_equal(read.array(name), array)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"model_type": "gptj"}, "describes a gptj"), ({"hidden_size": None}, "not describe a Llama")],
)
def test_another_network_is_refused(checkpoint: Path, change: dict[str, Any], message: str) -> None:
    path = checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ProgramError, match=message):
        read_size(checkpoint)


def test_rows_that_are_rotated_together_are_neighbours_for_llama_cpp() -> None:
    rows = np.arange(8.0)[:, None]
    assert gguf_file.interleaved(rows, 2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_long_waves_of_the_rotary_embedding_are_slowed_down_and_short_ones_not() -> None:
    factors = gguf_file.rotary_factors(LlamaSize())
    assert (len(factors), factors[0], factors[-1]) == (64, 1, 8)
    # Source: Hugging Face's function for the type llama3, at one of the waves between.
    assert factors[32] == pytest.approx(2.69453, abs=1e-5)


def test_llama_cpp_gets_every_weight_under_its_own_name(checkpoint: Path, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    out = tmp_path / "out"
    out.mkdir()
    words = ["--model", "llama3", "--checkpoint", str(checkpoint), "--out", str(out)]
    assert convert.main([*words, "--other-size"]) == 0
    reader = gguf.GGUFReader(out / folder.GGUF)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert len(tensors) == len(NARROW.shapes()) + 1
    weights = weights_of(NARROW)
    np.testing.assert_array_equal(
        tensors["blk.1.ffn_down.weight"], weights["model.layers.1.mlp.down_proj.weight"]
    )
    keys = weights["model.layers.0.self_attn.k_proj.weight"]
    np.testing.assert_array_equal(
        tensors["blk.0.attn_k.weight"], gguf_file.interleaved(keys, NARROW.key_heads)
    )
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    assert metadata["tokenizer.ggml.tokens"] == list(make_llama3.tiny_tokenizer().names)
    assert metadata["llama.attention.head_count_kv"] == NARROW.key_heads
    facts = json.loads((out / "model.json").read_text())
    assert facts["options"]["stop_token_ids"] == ENDS
    assert facts["options"]["reduced"] == "another size than that of MLPerf's model"
    assert facts["accuracy"]["target"] == 38.3914


def test_a_checkpoint_that_lacks_a_weight_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    arrays = folder.ArrayWeights(weights_of(NARROW))
    fewer = replace(NARROW, layers=1)
    folder.write_safetensors(arrays, fewer, checkpoint / folder.SAFETENSORS, "F32")
    pytest.importorskip("gguf")
    with pytest.raises(ProgramError, match=r"no model\.layers\.1\.input_layernorm"):
        convert.convert(LLAMA3_8B, checkpoint, tmp_path, "gguf", other_size=True)


def test_a_llama_of_another_size_needs_a_word_of_the_user(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "llama3", "--checkpoint", str(checkpoint), "--out", str(tmp_path)]
    assert convert.main(words) == 1
    assert "its size is not that of MLPerf's model" in capsys.readouterr().err


def test_pytorch_takes_the_checkpoint_as_it_is(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    convert.convert(LLAMA3_8B, checkpoint, out, "pytorch", other_size=True)
    facts = json.loads((out / "model-pytorch.json").read_text())
    assert (out / facts["file"]).read_text() == (checkpoint / "config.json").read_text()
    assert (out / folder.SAFETENSORS).samefile(checkpoint / folder.SAFETENSORS)


def test_random_weights_are_the_same_in_any_order() -> None:
    one, other = (synthetic.RandomLlamaWeights(NARROW) for _ in range(2))
    name = "model.layers.1.mlp.up_proj.weight"
    other.array("model.embed_tokens.weight")
    np.testing.assert_array_equal(one.array(name), other.array(name))
    assert one.array(name).std() == pytest.approx(NARROW.width**-0.5, rel=0.1)


# ---------------------------------------------------------------- permission


@pytest.fixture
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv(hugging_face.TOKEN_KEY, raising=False)
    return tmp_path


def test_a_missing_token_is_said_before_anything_is_fetched(no_login: Path) -> None:
    with pytest.raises(Problem, match="needs an access token") as caught:
        customize.refuse({"env": dict(FULL)})
    assert caught.value.code == "needs-input"
    assert "never into the command" in caught.value.hint
    (no_login / "token").write_text("x")
    assert customize.refuse({"env": dict(FULL)}) == {"return": 0}


def test_an_empty_token_is_none(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_login / "token").write_text("\n")
    monkeypatch.setenv(hugging_face.TOKEN_KEY, " ")
    assert not hugging_face.has_token({})
    for name in ("token", "absent"):
        assert not hugging_face.has_token({hugging_face.TOKEN_FILE_KEY: str(no_login / name)})
    (no_login / "mine").write_text("hf_secret")
    assert hugging_face.has_token({hugging_face.TOKEN_FILE_KEY: str(no_login / "mine")})


@pytest.mark.parametrize("tags", ["get,ml-model,llama3,_8b,_hf", "get,ml-model,llama2,_hf"])
def test_the_plan_is_refused_too(no_login: Path, tags: str, home: Home) -> None:
    done = home.cm("plan", "script", f"--tags={tags}")
    assert done.status
    assert "needs an access token" in done.stdout + done.stderr


def test_a_token_of_the_environment_never_becomes_an_env_key(
    no_login: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hugging_face.TOKEN_KEY, "hf_secret")
    env = dict(FULL)
    customize.refuse({"env": env})
    assert "hf_secret" not in str(env)


@pytest.mark.parametrize("change", [{"CM_DOWNLOAD_SRC": "mlcommons"}, {"CM_ML_MODEL_NAME": "405B"}])
def test_what_only_members_get_has_to_be_brought(
    no_login: Path, change: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hugging_face.TOKEN_KEY, "x")
    with pytest.raises(Problem, match="no --checkpoint=FOLDER") as caught:
        customize.refuse({"env": {**FULL, **change}})
    assert "https://llama3-1.mlcommons.org" in caught.value.hint


@pytest.mark.parametrize("more", [{"CM_ML_MODEL_FORM": "tiny"}, {"LLAMA3_CHECKPOINT_PATH": "x"}])
def test_what_is_made_or_brought_needs_no_token(no_login: Path, more: dict[str, str]) -> None:
    assert customize.refuse({"env": {**FULL, **more}}) == {"return": 0}


def test_the_token_of_a_file_goes_to_the_server_and_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    errors = pytest.importorskip("huggingface_hub.errors")
    requests: list[dict[str, Any]] = []

    def refusing(*names: str, **options: Any) -> None:
        requests.append(options)
        raise errors.HfHubHTTPError.__new__(errors.HfHubHTTPError)

    monkeypatch.setattr(hub, "snapshot_download", refusing)
    (tmp_path / "token").write_text("hf_secret\n")
    words = [
        "--model",
        "llama3",
        "--token-file",
        str(tmp_path / "token"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert fetch.main(words) == 1
    assert requests[0]["token"] == "hf_secret"
    assert requests[0]["revision"] == LLAMA3_8B.revision
    shown = "".join(capsys.readouterr())
    assert "accept the licence" in shown
    assert "hf_secret" not in shown


# ---------------------------------------------------------------- inputs


def test_what_is_no_checkpoint_or_too_large_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"CM_ML_MODEL_FRAMEWORK": "pytorch", "LLAMA3_CHECKPOINT_PATH": str(tmp_path)}
    with pytest.raises(Problem, match="there is no"):
        customize.preprocess({"env": env})
    (tmp_path / "config.json").write_text("{}")
    assert customize.preprocess({"env": env})["relies_on"] == [str(tmp_path / "config.json")]
    made_up = {"CM_ML_MODEL_FORM": "synthetic", "CM_LLAMA3_LAYERS": "33"}
    with pytest.raises(Problem, match="a number from 1 to 32"):
        customize.preprocess({"env": made_up})


def test_the_shipped_model_is_what_its_facts_say() -> None:
    shipped = forms.SCRIPT / "get-ml-model-llama3" / "tiny"
    held_out = json.loads((forms.llama3_articles() / "dataset.json").read_text())
    prompts = held_out["files"]["prompts.npy"]["sha256"]
    for name in folder.FACTS.values():
        facts = json.loads((shipped / name).read_text())
        path = shipped / facts["file"]
        assert path.stat().st_size == facts["bytes"] <= 800_000
        assert hashlib.sha256(path.read_bytes()).hexdigest() == facts["sha256"]
        assert facts["training"]["held_out"]["sha256"] == prompts
    assert sum(file.stat().st_size for file in shipped.iterdir()) < 1_700_000
    document = make_llama3.tiny_tokenizer().document()
    assert json.loads((shipped / "tokenizer.json").read_text()) == document
    size = read_size(shipped)
    arrays = HuggingFaceCheckpoint(shipped)
    for name, shape in size.shapes().items():
        assert arrays.array(name).shape == shape


def test_both_shipped_files_hold_the_same_numbers() -> None:
    """Rows of queries and keys lie in another order in GGUF, and norms as float32."""
    shipped = forms.SCRIPT / "get-ml-model-llama3" / "tiny"
    gguf = (shipped / folder.GGUF).read_bytes()
    arrays = HuggingFaceCheckpoint(shipped)
    for name in read_size(shipped).shapes():
        array = arrays.array(name)
        if array.ndim == 1:
            data = [array.astype("<f4").tobytes()]
        else:
            rows = array.astype("<f2")
            turned = name.endswith(("q_proj.weight", "k_proj.weight"))
            data = [row.tobytes() for row in rows] if turned else [rows.tobytes()]
        assert all(part in gguf for part in data), name


def test_the_tiny_form_needs_no_packages_and_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {
        "CM_ML_MODEL_FORM": "tiny",
        "CM_ML_MODEL_FRAMEWORK": "gguf",
        "CM_LLAMA3_RETRAIN": "no",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(forms.SCRIPT / "get-ml-model-llama3"),
    }
    assert customize.preprocess({"env": env})["return"] == 0
    assert customize.postprocess({"env": env})["return"] == 0
    assert env["CM_ML_MODEL_FILE_WITH_PATH"] == str(tmp_path / "model.gguf")
    assert (tmp_path / "oracle.npz").is_file()


def test_what_the_scripts_start_needs_no_packages_that_they_do_not_install() -> None:
    """A full model is converted in a Python with numpy, gguf, safetensors and ml_dtypes."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['onnx', 'onnxruntime', 'torch', 'pandas']))\n"
        "from modelzoo.datasets.openorca import make_dataset\n"
        "from modelzoo.llama import convert, fetch, synthetic\n"
    )
    run([sys.executable, "-c", program], env=python_env(lab.LIB)).ok()
