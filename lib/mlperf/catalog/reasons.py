"""Why benchmarks cannot be run here: what each kind would need."""

LANGUAGE = "an engine for language models is needed, which this collection does not have yet"
IMAGES = "its model, data and metrics are not in this collection yet"
