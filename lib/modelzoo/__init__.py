"""What the programs share that make models and data sets.

They run under the interpreter of their own script, with this folder on ``PYTHONPATH``; nothing of
the engine is imported. ``program``, ``files`` and ``progress`` need the standard library and NumPy,
``graph`` and ``models`` need onnx, ``training`` needs PyTorch, ``judging`` the benchmark harness.
"""
