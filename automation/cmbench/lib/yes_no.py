"""What a value of the environment says: yes, no, or neither."""

from __future__ import annotations

_YES = ("yes", "true", "on", "1")
_NO = ("no", "false", "off", "0")


def is_yes(value: object) -> bool:
    """Whether ``value`` is ``True``, ``1``, ``yes``, ``on`` or ``true``, in any case."""
    return str(value).strip().lower() in _YES


def is_no(value: object) -> bool:
    """Whether ``value`` is ``False``, ``0``, ``no``, ``off`` or ``false``, in any case."""
    return str(value).strip().lower() in _NO
