"""The backends: what runs a model."""
