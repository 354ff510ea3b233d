"""Running the steps of a plan: ``customize.py``, native scripts, order, and parallel steps."""
