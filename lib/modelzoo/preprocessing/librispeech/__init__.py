"""Preprocessing: speech (LibriSpeech)."""
