"""The command line: verbs, usage, completion, and the adapter that cmind calls."""
