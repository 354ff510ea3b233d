"""Preprocessing: questions and answers (SQuAD)."""
