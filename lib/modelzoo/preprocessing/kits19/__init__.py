"""Preprocessing: kidney tumours in three dimensions (KiTS19)."""
