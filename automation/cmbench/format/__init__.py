"""The CM format: what ``meta.yaml``, env and a script directory mean; it runs nothing."""
