"""One module per backend, with its specifications as ``SPECS``."""
