"""Throughput per accelerator, watt and core, which the store fills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns."""
    for part in ("accelerator", "watt", "core"):
        op.add_column("run", sa.Column(f"throughput_per_{part}", sa.Float))
