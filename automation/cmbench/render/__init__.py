"""Plans, records, scripts and runs as text for a terminal of 80 columns."""
