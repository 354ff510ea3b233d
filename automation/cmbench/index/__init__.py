"""Which scripts there are, and which of them a request means."""
