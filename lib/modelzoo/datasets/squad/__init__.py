"""Data set: questions and answers (SQuAD)."""
