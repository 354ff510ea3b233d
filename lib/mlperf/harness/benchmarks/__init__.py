"""The benchmarks: what a model is measured with."""
