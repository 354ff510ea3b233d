"""Model: a user's own model."""
