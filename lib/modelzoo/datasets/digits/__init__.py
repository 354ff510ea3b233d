"""Data set: handwritten digits."""
