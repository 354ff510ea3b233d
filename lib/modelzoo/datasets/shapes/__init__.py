"""Data set: drawn shapes."""
