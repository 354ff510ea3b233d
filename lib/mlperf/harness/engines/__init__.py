"""TensorRT engines, compiled from a graph for one kind of GPU, and their stand-ins."""
