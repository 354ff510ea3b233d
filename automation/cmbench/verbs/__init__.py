"""One module per family of verbs; ``cmbench.cli`` names them and loads what is called."""
