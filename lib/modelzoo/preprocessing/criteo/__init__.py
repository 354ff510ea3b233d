"""Preprocessing: clicks on advertisements (Criteo)."""
