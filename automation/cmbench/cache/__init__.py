"""Cache entries: their identity, their life on disk, and what may go."""
