"""Model: RNN-T."""
