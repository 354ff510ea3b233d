"""A SavedModel of TensorFlow in Triton's Python backend, for one predictor on every core.

With tensorflow-neuron a batch is shared out to the cores; the calls into the SDK are not verified
on hardware.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from served import BatchingModel, Feeds


class TritonPythonModel(BatchingModel):
    """Predictors of tensorflow 1 (tf.contrib) or the signature of tensorflow 2."""

    def open(self) -> None:
        count = len(self.cores) if self.cores else 1
        if self.cores:
            os.environ["NEURON_RT_NUM_CORES"] = str(count)
        threads = int(self.parameters.get("NUM_THREADS_PER_CORE", "1"))
        self.predictors = [self._predictor() for _ in range(count)]
        self.pool = ThreadPoolExecutor(count * threads)

    def _predictor(self) -> Callable[[Feeds], dict[str, Any]]:
        import tensorflow as tf

        tags = self.parameters.get("TAG_SET", "serve")
        key = self.parameters.get("SIGNATURE_DEF_KEY", "serving_default")
        if tf.__version__.startswith("1."):
            made: Callable[[Feeds], dict[str, Any]]
            made = tf.contrib.predictor.from_saved_model(self.file, key, tags=tags)
            return made
        module = tf.saved_model.load(self.file, tags=[tags])

        def predict(feeds: Feeds) -> dict[str, Any]:
            # The signature alone does not keep its module.
            outputs = module.signatures[key](**{n: tf.constant(a) for n, a in feeds.items()})
            return {name: value.numpy() for name, value in outputs.items()}

        return predict

    def compute(self, feeds: Feeds) -> list[Any]:
        count = len(self.predictors)
        parts = [
            dict(zip(feeds, arrays))
            for arrays in zip(*(np.array_split(array, count) for array in feeds.values()))
        ]
        outputs = list(self.pool.map(lambda predict, part: predict(part), self.predictors, parts))
        return [np.concatenate([each[name] for each in outputs]) for name, _, _ in self.outputs]
