"""Compile a model for Neuron: run the SDK's Python, check its output, install it."""
