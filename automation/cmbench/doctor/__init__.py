"""Checks of a machine before anything is started, in general and for a vendor's flow."""
