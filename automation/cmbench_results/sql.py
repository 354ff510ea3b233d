"""SQLAlchemy, or one sentence on how to get it."""

from __future__ import annotations

from cmbench.errors import Error

try:
    import alembic  # noqa: F401
    import sqlalchemy as sa
except ModuleNotFoundError as missing:
    raise Error(
        "extra-missing",
        f"the database of results needs {missing.name}, which is not installed",
        hint="pip install 'cmbench[gui]'",
    ) from None

__all__ = ["sa"]
