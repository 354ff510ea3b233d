"""Model: Whisper."""
