"""MLPerf Endpoints v1.0: plan of a curve, runs of the reference client, submission tree, checks."""
