"""Train the tiny form of DLRM on generated clicks and write it as ONNX.

    train.py --version v1|v2 --world DIR --preprocess DIR --held-out DIR --out DIR

``--world`` is the folder of clicks.py, which draws training samples with seeds of its own;
``--preprocess`` that of preprocess.py, so that training sees what the benchmark will see. The
held-out arrays serve only for the figure reported at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from network import DENSE_NAME, INDICES_NAME, OFFSETS_NAME, OUTPUT_NAME, TinyDlrm, to_onnx
from torch.nn import functional

TRAINING_SEED = 1000
SHARES = {"-99": 0.99, "-99.9": 0.999}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    chunks: int = 24
    chunk: int = 131072
    batch: int = 1024
    peak_rate: float = 0.006
    weight_decay: float = 0.0001


def train(rows: list[int], hot: list[int], recipe: Recipe) -> TinyDlrm:
    """Train on freshly drawn samples in one thread, each seen once."""
    import clicks
    import preprocess

    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    network = TinyDlrm(rows, hot)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=recipe.weight_decay)
    steps = recipe.chunks * (recipe.chunk // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, steps)
    for number in range(recipe.chunks):
        drawn = clicks.draw(recipe.chunk, TRAINING_SEED + number)
        dense = torch.from_numpy(preprocess.dense_of(drawn.counts))
        indices = torch.from_numpy(preprocess.indices_of(drawn.categories, rows, hot)).long()
        label = torch.from_numpy(drawn.label.astype(np.float32))
        for begin in range(0, recipe.chunk, recipe.batch):
            part = slice(begin, begin + recipe.batch)
            odds = network(dense[part], indices[part])
            loss = functional.binary_cross_entropy_with_logits(odds, label[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network


def held_out_auc(model: onnx.ModelProto, folder: Path, version: str) -> float:
    """AUC in percent of ONNX Runtime's predictions for the held-out arrays."""
    import clicks

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    dense, indices = np.load(folder / "dense.npy"), np.load(folder / "indices.npy")
    feeds = {DENSE_NAME: dense, INDICES_NAME: indices.astype(np.int64)}
    if version == "v1":
        turned = np.ascontiguousarray(indices.T).astype(np.int64)
        places = np.broadcast_to(np.arange(len(dense)), turned.shape)
        feeds |= {INDICES_NAME: turned, OFFSETS_NAME: np.ascontiguousarray(places)}
    (found,) = session.run([OUTPUT_NAME], feeds)
    return float(100 * clicks.auc(np.load(folder / "labels.npy"), np.asarray(found)[:, 0]))


def signature(version: str, columns: int) -> dict[str, Any]:
    """Inputs and outputs as model.json names them: without the first dimension."""
    dense = {"name": DENSE_NAME, "dtype": "float32", "shape": [13]}
    indices = {"name": INDICES_NAME, "dtype": "int64", "shape": [columns]}
    inputs = [dense, indices]
    if version == "v1":
        several = {"dtype": "int64", "shape": [-1]}
        inputs = [dense, {"name": OFFSETS_NAME, **several}, {"name": INDICES_NAME, **several}]
    return {
        "inputs": inputs,
        "outputs": [{"name": OUTPUT_NAME, "dtype": "float32", "shape": [1]}],
        "options": {"layout": "feature-first" if version == "v1" else "pair-first"},
    }


def describe(
    version: str, packed: bytes, value: float, data: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    """What model.json says: first what a benchmark needs, then how the model came about."""
    return {
        "name": f"dlrm_{version}_tiny",
        "file": f"dlrm_{version}_tiny.onnx",
        "sha256": hashlib.sha256(packed).hexdigest(),
        "bytes": len(packed),
        "precision": "fp32",
        **signature(version, sum(data["hot"])),
        "accuracy": {
            "metric": "AUC",
            "unit": "%",
            "reference": round(value, 4),
            "target": round(value * SHARES["-99"], 4),
        },
        "training": {
            "split": "drawn with other seeds; nothing was tuned on the held-out part",
            "held_out": {
                "name": data["name"],
                "pairs": data["pairs"],
                **data["files"]["indices.npy"],
            },
            **more,
            "made_with": {
                "torch": torch.__version__,
                "onnx": onnx.__version__,
                "onnxruntime": onnxruntime.__version__,
                "numpy": np.__version__,
            },
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", choices=("v1", "v2"), required=True)
    for name in ("--world", "--preprocess", "--held-out", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--chunks", type=int, default=Recipe().chunks)
    options = parser.parse_args(arguments)
    sys.path[:0] = [str(options.world), str(options.preprocess)]
    recipe = Recipe(chunks=options.chunks)
    data = json.loads((options.held_out / "dataset.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    model = to_onnx(train(data["rows"], data["hot"], recipe), options.version)
    value = held_out_auc(model, options.held_out, options.version)
    packed = model.SerializeToString(deterministic=True)
    seconds = round(time.monotonic() - started, 1)
    more = {"recipe": asdict(recipe), "seconds": seconds}
    facts = describe(options.version, packed, value, data, more)
    (options.out / facts["file"]).write_bytes(packed)
    text = json.dumps(facts, indent=2) + "\n"
    (options.out / "model.json").write_text(text, encoding="utf-8")
    print(f"held-out AUC {value:.3f} %, {len(packed)} bytes, {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
