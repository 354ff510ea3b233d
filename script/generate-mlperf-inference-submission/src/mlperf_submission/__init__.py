"""From the results of benchmark runs to a tree that can be handed in, and its checks."""
