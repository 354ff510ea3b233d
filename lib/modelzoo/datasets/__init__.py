"""Programs that make or fetch data sets."""
