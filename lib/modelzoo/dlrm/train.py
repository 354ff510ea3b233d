"""Train the tiny form of DLRM on generated clicks and write it as ONNX.

    python -m modelzoo.dlrm.train --version v1|v2 --held-out DIR --out DIR

Training samples are drawn with seeds of their own and go through the benchmark's preprocessing. The
held-out arrays serve only for the figure reported at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from torch import Tensor
from torch.nn import functional

from modelzoo import files, models, program, training
from modelzoo.datasets.criteo import clicks
from modelzoo.dlrm.network import (
    DENSE_NAME,
    INDICES_NAME,
    OFFSETS_NAME,
    OUTPUT_NAME,
    TinyDlrm,
    to_onnx,
)
from modelzoo.preprocessing.criteo import preprocess

TRAINING_SEED = 1000

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DlrmRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    chunks: int = 24
    chunk: int = 131072
    batch: int = 1024
    peak_rate: float = 0.006
    weight_decay: float = 0.0001


def train(rows: list[int], hot: list[int], recipe: DlrmRecipe) -> TinyDlrm:
    """Train on freshly drawn samples in one thread, for one epoch."""
    training.seeded(recipe.seed)
    network = TinyDlrm(rows, hot)
    steps = recipe.chunks * (recipe.chunk // recipe.batch)
    losses = losses_of(network, rows, hot, recipe)
    training.fit(network.parameters(), losses, recipe, steps)
    return network


def losses_of(
    network: TinyDlrm, rows: list[int], hot: list[int], recipe: DlrmRecipe
) -> Iterator[Tensor]:
    """Yield the loss of the batches of all chunks of samples."""
    for number in range(recipe.chunks):
        drawn = clicks.draw(recipe.chunk, TRAINING_SEED + number)
        dense = torch.from_numpy(preprocess.dense_of(drawn.counts))
        indices = torch.from_numpy(preprocess.indices_of(drawn.categories, rows, hot)).long()
        label = torch.from_numpy(drawn.label.astype(np.float32))
        for begin in range(0, recipe.chunk, recipe.batch):
            part = slice(begin, begin + recipe.batch)
            odds = network(dense[part], indices[part])
            yield functional.binary_cross_entropy_with_logits(odds, label[part])


def held_out_auc(model: onnx.ModelProto, folder: Path, version: str) -> float:
    """AUC in percent of ONNX Runtime's predictions for the held-out arrays."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    dense, indices = np.load(folder / "dense.npy"), np.load(folder / "indices.npy")
    feeds = {DENSE_NAME: dense, INDICES_NAME: indices.astype(np.int64)}
    if version == "v1":
        turned = np.ascontiguousarray(indices.T).astype(np.int64)
        places = np.broadcast_to(np.arange(len(dense)), turned.shape)
        feeds |= {INDICES_NAME: turned, OFFSETS_NAME: np.ascontiguousarray(places)}
    (predictions,) = session.run([OUTPUT_NAME], feeds)
    return float(100 * clicks.auc(np.load(folder / "labels.npy"), np.asarray(predictions)[:, 0]))


def signature(version: str, columns: int) -> dict[str, Any]:
    """Inputs and outputs as model.json names them: without the first dimension."""
    indices = [models.tensor(INDICES_NAME, columns, dtype="int64")]
    if version == "v1":
        indices = models.tensors([OFFSETS_NAME, INDICES_NAME], -1, dtype="int64")
    return {
        "inputs": [models.tensor(DENSE_NAME, 13), *indices],
        "outputs": [models.tensor(OUTPUT_NAME, 1)],
        "options": {"layout": "feature-first" if version == "v1" else "pair-first"},
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--version", choices=("v1", "v2"), required=True)
    parser.add_argument("--held-out", type=Path, required=True, help="arrays to score at the end")
    parser.add_argument("--chunks", type=int, default=DlrmRecipe().chunks)
    options = parser.parse_args(arguments)
    watch, recipe = training.Stopwatch(), DlrmRecipe(chunks=options.chunks)
    data = files.read_facts(options.held_out)
    model = to_onnx(train(data["rows"], data["hot"], recipe), options.version)
    auc = held_out_auc(model, options.held_out, options.version)
    name = f"dlrm_{options.version}_tiny"
    held_out = files.held_out(options.held_out, "indices.npy", pairs="pairs")
    split = "drawn with other seeds; nothing was tuned on the held-out part"
    facts = {
        "name": name,
        **models.saved(options.out / f"{name}.onnx", model, deterministic=True),
        "precision": "fp32",
        **signature(options.version, sum(data["hot"])),
        "accuracy": models.accuracy("AUC", "%", auc),
        "training": training.about(recipe, watch.seconds, split=split, held_out=held_out),
    }
    training.say(models.write_facts(options.out, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
