"""Programs that make the models and data sets of the benchmarks, and their common modules.

Scripts start them as modules, such as ``python -m modelzoo.resnet50.train``, with ``lib`` on the
import path; the engine is not imported. ``program``, ``files``, ``progress`` need only NumPy,
``graph`` and ``models`` need onnx, ``training`` needs PyTorch, ``judging`` the benchmark harness.
"""
