"""Preprocessing: photographs with boxes (OpenImages)."""
