"""Preprocessing: brain tumours in three dimensions (BraTS)."""
