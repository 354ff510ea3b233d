"""Model: Llama 3, from a checkpoint, trained small, or with random weights."""
