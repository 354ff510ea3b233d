"""Starting a Triton server, being sure that it is ready, and leaving nothing behind.

Plain Python of the standard library, for Linux; it knows nothing of the engine and of benchmarks.
"""
