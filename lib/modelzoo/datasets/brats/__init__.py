"""Data set: brain tumours in three dimensions (BraTS)."""
