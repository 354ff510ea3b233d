"""Checks of a machine before anything is started, in general and for a vendor's flow."""

__all__ = ["checks", "finding", "vendors"]
