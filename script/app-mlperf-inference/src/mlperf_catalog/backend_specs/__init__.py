"""One module for each backend; its ``SPECS`` are found by name."""
