"""Data set: photographs with boxes (OpenImages)."""
