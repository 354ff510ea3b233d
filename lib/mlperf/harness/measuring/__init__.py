"""LoadGen runs, their logs, and what the machine did meanwhile."""
