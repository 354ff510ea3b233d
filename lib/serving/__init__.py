"""Inference servers: protocol, server, model repository, and load generator."""
