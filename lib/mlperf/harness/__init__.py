"""Measure a model with LoadGen: one process per run, watched and judged by one session.

The package runs under the Python of the benchmark and imports nothing of the engine that starts
it. What goes in is one JSON file (``settings``), what comes out is a result tree (``results``).
"""
