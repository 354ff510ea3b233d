"""OpenOrca as prompts of tokens."""
