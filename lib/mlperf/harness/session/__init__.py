"""One call of the harness: what is asked, each run in a process of its own."""
