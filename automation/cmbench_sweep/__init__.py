"""Sweeps: many runs of one script over values of its inputs, each point measured once.

``docs/decisions/050`` tells how a sweep file becomes points, and points become results.
"""
