"""Runs in containers: what a plan needs of an image, its text, and the engines that run it."""

__all__ = ["design", "engines", "launch", "mounts", "options", "workplace"]
