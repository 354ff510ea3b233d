"""Data set: kidney tumours in three dimensions (KiTS19)."""
