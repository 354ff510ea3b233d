"""From the results of benchmark runs to a submission tree, and its checks."""
