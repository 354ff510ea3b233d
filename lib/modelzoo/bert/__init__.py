"""Model: BERT-large."""
