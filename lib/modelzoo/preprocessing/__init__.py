"""Programs that preprocess data sets."""
