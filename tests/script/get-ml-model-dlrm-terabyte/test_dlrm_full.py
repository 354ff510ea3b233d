"""DLRM from checkpoints of the published layouts: names, shapes, shards, and what it computes.

The real checkpoints (about 100 GB) cannot be had here; these have their names and files and are
narrower. What is written as a snapshot has the form that torchsnapshot 0.1.0 was seen to write.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from cmbench.lib.host import machine
from modelzoo.dlrm import recommender
from support import LIB

SCRIPT = forms.SCRIPT / "get-ml-model-dlrm-terabyte"
customize = lab.module_of(SCRIPT / "customize.py")

ml_models = lab.hooks("ml_models")

# What the programs import by its plain name must be this script's.
weights = sys.modules["weights"] = lab.module_of(LIB / "modelzoo/dlrm" / "weights.py")
convert = lab.module_of(LIB / "modelzoo/dlrm" / "convert.py")

TORCH = importlib.util.find_spec("torch") is not None
ROWS = tuple(range(3, 29))


def narrow(version: str) -> Any:
    size = recommender.real(version)
    return replace(
        size, rows=ROWS, width=6, bottom=(8, 7, 6), top=(9, 8, 7, 5, 1), rank=size.rank and 4
    )


def arrays(size: Any) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        name: generator.normal(size=shape, scale=0.3).astype(np.float32)
        for name, shape in recommender.shapes(size).items()
    }


def pairs(size: Any, count: int = 5) -> tuple[Any, Any]:
    generator = np.random.default_rng(4)
    columns = [
        generator.integers(0, rows, (count, many))
        for rows, many in zip(size.rows, size.hot, strict=True)
    ]
    return generator.random((count, 13), dtype=np.float32), np.concatenate(columns, axis=1)


def tower(found: dict[str, Any], size: Any, part: str, x: Any) -> Any:
    layers = recommender.layers(size, part)
    for number, (name, _) in enumerate(layers):
        x = x @ found[f"{name}.weight"].T + found[f"{name}.bias"]
        if part == "bottom" or number + 1 < len(layers):
            x = np.maximum(x, 0)
    return x


def reference(found: dict[str, Any], size: Any, dense: Any, indices: Any) -> Any:
    """The probability of a click, by the definitions of both versions."""
    x = tower(found, size, "bottom", dense)
    bounds = np.cumsum([0, *size.hot])
    bags = [
        found[recommender.table(size, feature)][indices[:, begin:end]].sum(axis=1)
        for feature, (begin, end) in enumerate(itertools.pairwise(bounds))
    ]
    parts = np.stack([x, *bags], axis=1)
    if size.version == "v1":
        dots = parts @ parts.transpose(0, 2, 1)
        below = [dots[:, i, j] for i in range(27) for j in range(i)]
        y = np.concatenate([x, np.stack(below, axis=1)], axis=1)
    else:
        first = y = parts.reshape(len(dense), -1)
        for layer in range(3):
            v, w, b = (
                found[f"inter_arch.crossnet.{kind}.{layer}"]
                for kind in ("V_kernels", "W_kernels", "bias")
            )
            y = first * (y @ v.T @ w.T + b) + y
    return 1 / (1 + np.exp(-tower(found, size, "top", y)))


def snapshot(folder: Path, found: dict[str, Any], as_yaml: bool = False) -> Path:
    """Tables in shards of two processes (rows and columns are cut), all else in one file."""
    folder.mkdir(parents=True)
    (folder / "batched").mkdir()
    (folder / "sharded").mkdir()
    manifest: dict[str, Any] = {"0/model": {"type": "dict", "keys": list(found)}}
    small, begin = [], 0
    for name, array in found.items():
        plain = {"type": "Tensor", "serializer": "buffer_protocol", "dtype": "torch.float32"}
        if "embedding_bags" not in name:
            entry = {**plain, "location": "batched/a", "shape": list(array.shape)}
            entry |= {"replicated": True, "byte_range": [begin, begin + array.nbytes]}
            small.append(array.tobytes())
            begin += array.nbytes
            manifest |= {f"{rank}/model/{name}": entry for rank in (0, 1)}
            continue
        middle = (array.shape[0] // 2, 2)
        for rank in (0, 1):
            rows = slice(0, middle[0]) if rank == 0 else slice(middle[0], None)
            shards = []
            for columns in (slice(0, middle[1]), slice(middle[1], None)):
                part = np.ascontiguousarray(array[rows, columns])
                file = f"sharded/{name}_{rows.start}_{columns.start}"
                (folder / file).write_bytes(part.tobytes())
                tensor = {**plain, "location": file, "shape": list(part.shape)}
                places = [rows.start, columns.start]
                about = {"offsets": places, "sizes": list(part.shape)}
                shards.append({**about, "tensor": {**tensor, "byte_range": None}})
            manifest[f"{rank}/model/{name}"] = {"type": "ShardedTensor", "shards": shards}
    (folder / "batched" / "a").write_bytes(b"".join(small))
    whole = {"version": "0.1.0", "world_size": 2, "manifest": manifest}
    text = yaml.safe_dump(whole) if as_yaml else json.dumps(whole)
    (folder / ".snapshot_metadata").write_text(text)
    return folder


def converted(checkpoint: Path, version: str, out: Path) -> Path:
    out.mkdir()
    words = ["--checkpoint", str(checkpoint), "--version", version, "--out", str(out)]
    assert convert.main([*words, "--other-size"]) == 0
    return out


def answers(folder: Path, dense: Any, indices: Any) -> Any:
    facts = ml_models.offer({}, str(folder))
    session = onnxruntime.InferenceSession(
        str(folder / facts["file"]), providers=["CPUExecutionProvider"]
    )
    return session.run(["pred"], {"dense_x": dense, "indices": indices})[0]


@pytest.mark.parametrize("as_yaml", [False, True])
def test_the_second_version_comes_from_the_shards_of_all_processes(
    tmp_path: Path, as_yaml: bool
) -> None:
    size = narrow("v2")
    found = arrays(size)
    snapshot(tmp_path / "model_weights" / "inner", found, as_yaml)
    out = converted(tmp_path / "model_weights", "v2", tmp_path / "out")
    dense, indices = pairs(size)
    expected = reference(found, size, dense, indices)
    np.testing.assert_allclose(answers(out, dense, indices), expected, atol=1e-5)
    facts = json.loads((out / "model.json").read_text())
    assert (facts["accuracy"]["target"], facts["inputs"][1]["shape"]) == (79.5069, [214])
    assert facts["options"]["reduced"].startswith("another size")


@pytest.mark.skipif(not TORCH, reason="reading PyTorch's file needs torch")
@pytest.mark.parametrize("zipped", [False, True])
def test_the_first_version_comes_from_one_file(tmp_path: Path, zipped: bool) -> None:
    import torch

    size = narrow("v1")
    found = arrays(size)
    tensors = {name: torch.from_numpy(array) for name, array in found.items()}
    path = tmp_path / "tb00_40M.pt"
    whole = {"epoch": 0, "iter": 75000, "state_dict": tensors, "test_auc": 0.8025}
    torch.save(whole, str(path), _use_new_zipfile_serialization=zipped)
    out = converted(path, "v1", tmp_path / "out")
    dense, indices = pairs(size)
    expected = reference(found, size, dense, indices)
    np.testing.assert_allclose(answers(out, dense, indices), expected, atol=1e-5)


def failure(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> str:
    words = ["--checkpoint", str(folder), "--version", "v2", "--out", str(folder)]
    assert convert.main([*words, *more]) == 1
    return capsys.readouterr().err


def test_what_is_missing_or_foreign_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = arrays(narrow("v2"))
    assert "has 0 files .snapshot_metadata" in failure(capsys, tmp_path)
    folder = snapshot(tmp_path / "whole", found)
    assert "not that of MLPerf's model" in failure(capsys, folder)
    table = recommender.table(narrow("v2"), 25)
    lost = folder / "sharded" / f"{table}_0_2"
    lost.rename(tmp_path / "away")
    assert f"lacks sharded/{lost.name}" in failure(capsys, folder)
    lost.write_bytes((tmp_path / "away").read_bytes()[:-8])
    assert f"is cut short: {table}" in failure(capsys, folder, "--other-size")
    folder = snapshot(tmp_path / "fewer", {k: v for k, v in found.items() if k != table})
    assert "25 tables like" in failure(capsys, folder)
    folder = snapshot(tmp_path / "more", {**found, "adapter.weight": np.zeros(3, np.float32)})
    assert "the network has no adapter.weight" in failure(capsys, folder)
    path = folder / ".snapshot_metadata"
    listed = json.loads(path.read_text())
    del listed["manifest"][f"0/model/{table}"]
    path.write_text(json.dumps(listed))
    assert f"{table} is not whole: 84 numbers of (28, 6)" in failure(capsys, folder)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_synthetic_model_runs_on_its_synthetic_pairs(tmp_path: Path, version: str) -> None:
    from mlperf.harness import records
    from mlperf.harness.benchmarks.registry import create
    from mlperf.harness.settings import ModelSpec

    model, data = tmp_path / "model", tmp_path / "data"
    model.mkdir()
    data.mkdir()
    cap = ["--version", version, "--most-rows", "20"]
    forms._program("modelzoo/dlrm/synthetic.py", *cap, "--out", model)
    sizes = [
        "--sizes",
        LIB / "modelzoo/dlrm" / "sizes.json",
        "--qsl-count",
        330067,
        "--name",
        "noise",
    ]
    sizes += ["--groups", 20]
    program = "modelzoo/preprocessing/criteo/synthetic.py"
    forms._program(program, *cap, *sizes, "--out", data)
    facts = json.loads((model / "model.json").read_text())
    assert facts["name"] == f"dlrm_{version}_synthetic_20_rows"
    assert facts["options"]["reduced"].endswith("rows, at most 20 in a table")
    spec = records.decode(ModelSpec, forms.model(model))
    name = "dlrm-99" if version == "v1" else "dlrm-v2-99"
    assert create(name, data, spec).sample_count == 330067
    dense, indices = (np.load(data / f"{name}.npy")[:9] for name in ("dense", "indices"))
    found = answers(model, dense, indices.astype(np.int64))
    assert found.shape == (9, 1)
    assert found.std() > 0


def test_tables_that_do_not_fit_are_refused_with_a_cap_that_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "memory_facts", lambda: machine.MemoryFacts(64 * 10**9, 10**9, 0))
    env = {
        "CM_ML_MODEL_FORM": "synthetic",
        "CM_DLRM_MOST_ROWS": "0",
        "CM_DLRM_VERSION": "v2",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
    }
    with pytest.raises(Error, match="DLRM v2 needs about 105 GB of memory") as caught:
        customize.preprocess({"env": env})
    assert "--env.CM_DLRM_MOST_ROWS=1000000" in caught.value.hint
    with pytest.raises(Error, match="--most_rows=all: a number is needed"):
        customize.preprocess({"env": {**env, "CM_DLRM_MOST_ROWS": "all"}})


def test_the_checkpoint_has_the_form_of_its_version(tmp_path: Path) -> None:
    env = {
        "CM_DLRM_RETRAIN": "no",
        "CM_DLRM_OTHER_SIZE": "yes",
        "CM_ML_MODEL_FRAMEWORK": "onnx",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
        "CM_DLRM_CHECKPOINT": str(tmp_path),
    }
    second: dict[str, Any] = {**env, "CM_DLRM_VERSION": "v2"}
    assert customize.preprocess({"env": second})["relies_on"] == [str(tmp_path)]
    assert second["CM_DLRM_CONVERT"] == "yes"
    with pytest.raises(Error, match="not what it should be") as caught:
        customize.preprocess({"env": {**env, "CM_DLRM_VERSION": "v1"}})
    assert "tb00_40M.pt" in caught.value.hint
