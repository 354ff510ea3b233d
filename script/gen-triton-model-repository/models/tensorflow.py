"""A SavedModel of TensorFlow in Triton's Python backend, for one predictor on each core.

With tensorflow-neuron a batch is shared out to the cores; the calls into the SDK are not verified
on hardware.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from served import Served


class TritonPythonModel(Served):
    """Predictors of tensorflow 1 (tf.contrib) or the signature of tensorflow 2."""

    def open(self):
        count = len(self.cores) if self.cores else 1
        if self.cores:
            os.environ["NEURON_RT_NUM_CORES"] = str(count)
        threads = int(self.parameters.get("NUM_THREADS_PER_CORE", "1"))
        self.predictors = [self._predictor() for _ in range(count)]
        self.pool = ThreadPoolExecutor(count * threads)

    def _predictor(self):
        import tensorflow as tf

        tags = self.parameters.get("TAG_SET", "serve")
        key = self.parameters.get("SIGNATURE_DEF_KEY", "serving_default")
        if tf.__version__.startswith("1."):
            return tf.contrib.predictor.from_saved_model(self.file, key, tags=tags)
        module = tf.saved_model.load(self.file, tags=[tags])
        signature = module.signatures[key]

        def predict(feeds):
            found = signature(**{name: tf.constant(array) for name, array in feeds.items()})
            return {name: value.numpy() for name, value in found.items()}

        predict.module = module  # the signature does not keep it
        return predict

    def compute(self, feeds):
        count = len(self.predictors)
        parts = [
            dict(zip(feeds, arrays))
            for arrays in zip(*(np.array_split(array, count) for array in feeds.values()))
        ]
        found = list(self.pool.map(lambda predict, part: predict(part), self.predictors, parts))
        return [np.concatenate([each[name] for each in found]) for name, _, _ in self.outputs]
