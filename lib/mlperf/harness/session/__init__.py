"""One call of the harness: its requested runs, in processes of their own."""
