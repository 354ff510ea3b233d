"""What the ``customize.py`` of several models and data sets share."""
