"""Preprocessing: photographs (ImageNet)."""
