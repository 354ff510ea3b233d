"""Plugins of the harness for a model that is handed in with ``--model_file``."""
