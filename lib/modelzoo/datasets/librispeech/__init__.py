"""Data set: speech (LibriSpeech)."""
