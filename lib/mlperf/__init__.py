"""What MLPerf inference is made of: catalogue, harness, submission, and pages."""
