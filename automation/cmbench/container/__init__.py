"""Runs in containers: what a plan needs of an image, its text, and the engines that run it."""
