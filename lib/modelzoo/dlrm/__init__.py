"""Model: DLRM."""
