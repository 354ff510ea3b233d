"""A model in int8: ranges from calibration samples, and the nodes that stay float."""
