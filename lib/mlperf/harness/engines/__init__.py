"""Engines: what TensorRT makes of a graph for one kind of GPU, and what stands in for them."""
