"""SQLAlchemy, or one sentence on how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from cmbench.errors import Error

# Alembic is a third of the start, and only a database of another version needs it.
for _name in ("sqlalchemy", "alembic"):
    if find_spec(_name) is None:
        raise Error(
            "extra-missing",
            f"the database of results needs {_name}, which is not installed",
            hint="pip install 'cmbench[gui]'",
        )
import sqlalchemy as sa  # noqa: E402

__all__ = ["sa"]
