"""Compile a model for Neuron: ask the SDK's Python, look at what it made, put it into its place."""
