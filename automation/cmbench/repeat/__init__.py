"""Making a recorded run again: replay, comparison of records, lock files."""
