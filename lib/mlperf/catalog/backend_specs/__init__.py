"""One module for each backend, with its specifications as ``SPECS``."""
