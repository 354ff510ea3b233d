"""Why benchmarks cannot be run: requirements that the harness does not meet."""

LANGUAGE = "an engine for language models is needed, which this collection does not have yet"
IMAGES = "its model, data and metrics are not in this collection yet"
