"""One module per family of verbs; ``cmbench.cli.dispatch`` names them and imports on demand."""
