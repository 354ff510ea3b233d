"""SQLAlchemy, or one sentence on how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from cmbench.errors import Error
from cmbench.lib.installation import install_command
from common.problems import Hint

# Alembic is a third of the start, and only a database of another version needs it.
if _missing := [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]:
    raise Error(
        "extra-missing",
        f"the database of results needs {_missing[0]}, which is not installed",
        hint=Hint.of_command(install_command("gui")),
    )
import sqlalchemy as sa

__all__ = ["sa"]
