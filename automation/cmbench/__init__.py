"""The engine of cmbench: runs tagged automation scripts with dependencies, a cache and a record."""

__version__ = "0.1.0"
