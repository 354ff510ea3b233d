"""What the hooks of several scripts share; ``cmbench.lib.siblings.hooks`` imports it."""
