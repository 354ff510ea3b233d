"""Model: GPT-J."""
