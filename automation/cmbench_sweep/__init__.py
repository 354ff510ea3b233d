"""Sweeps: many runs of one script over values of its inputs; points are measured once.

``docs/decisions/050`` describes how a sweep file becomes points, and points become results.
"""
