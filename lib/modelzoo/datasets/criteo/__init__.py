"""Data set: clicks on advertisements (Criteo)."""
