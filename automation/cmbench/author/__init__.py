"""For those who write scripts: scaffold, linter, detection tests, generated pages."""
