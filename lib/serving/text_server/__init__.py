"""Servers of language models with OpenAI's API: engines as data, and one for a while."""
