"""Results of volunteers: who sent what, the list of work, and what the server did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_SQLITE = """
CREATE TRIGGER crowd_event_{what} BEFORE {what} ON crowd_event
BEGIN SELECT RAISE(ABORT, 'the log of events is only added to'); END
"""
_FUNCTION = """
CREATE OR REPLACE FUNCTION crowd_event_kept() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the log of events is only added to'; END $$
"""
_POSTGRESQL = """
CREATE TRIGGER crowd_event_{what} BEFORE {what} ON crowd_event
FOR EACH ROW EXECUTE FUNCTION crowd_event_kept()
"""
_KEPT = {"sqlite": (_SQLITE,), "postgresql": (_FUNCTION, _POSTGRESQL)}


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "crowd_sender",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("blocked", sa.Boolean, nullable=False),
    )
    op.create_table(
        "crowd_run",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("sender", sa.String(16), sa.ForeignKey("crowd_sender.id"), nullable=False),
        sa.Column("network", sa.String(16), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tier", sa.Text, nullable=False),
        sa.Column("hardware", sa.String(16), nullable=False),
        sa.Column("work", sa.String(16), nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("log_digest", sa.String(64), nullable=False),
        sa.Column("lease", sa.String(32), nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("checks", sa.JSON, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
    )
    op.create_table(
        "crowd_work",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
    )
    op.create_table(
        "crowd_lease",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("work_id", sa.String(32), sa.ForeignKey("crowd_work.id"), nullable=False),
        sa.Column("sender", sa.String(16), nullable=False),
        sa.Column("seed", sa.String(20), nullable=False),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "crowd_event",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("told", sa.Text, nullable=False),
    )
    op.create_index("ix_crowd_run_state", "crowd_run", ["state"])
    op.create_index("ix_crowd_run_log_digest", "crowd_run", ["log_digest"])
    op.create_index("crowd_run_by_class", "crowd_run", ["hardware", "work"])
    op.create_index("crowd_run_by_sender", "crowd_run", ["sender", "at"])
    op.create_index("crowd_run_by_network", "crowd_run", ["network", "at"])
    op.create_index("ix_crowd_lease_work_id", "crowd_lease", ["work_id"])
    for what in ("UPDATE", "DELETE"):
        for statement in _KEPT[op.get_bind().dialect.name]:
            op.execute(statement.format(what=what))
