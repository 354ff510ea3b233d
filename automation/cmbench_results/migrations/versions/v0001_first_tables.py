"""The first tables: sources (``place``), runs and whole results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "place",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("added", sa.Text, nullable=False),
    )
    op.create_table(
        "run",
        sa.Column("uid", sa.String(16), primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("place_id", sa.String(16), sa.ForeignKey("place.id"), nullable=False),
        sa.Column("series", sa.String(16), nullable=False),
        sa.Column("benchmark", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("scenario", sa.Text, nullable=False),
        sa.Column("round", sa.Text, nullable=False),
        sa.Column("division", sa.Text, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("organization", sa.Text, nullable=False),
        sa.Column("system", sa.Text, nullable=False),
        sa.Column("system_id", sa.String(16), nullable=False),
        sa.Column("cpu", sa.Text, nullable=False),
        sa.Column("accelerator", sa.Text, nullable=False),
        sa.Column("accelerators", sa.Integer, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("framework", sa.Text, nullable=False),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("precision", sa.Text, nullable=False),
        sa.Column("tier", sa.Text, nullable=False),
        sa.Column("validity", sa.Text, nullable=False),
        sa.Column("availability", sa.Text, nullable=False),
        sa.Column("inferred", sa.Boolean, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("direction", sa.Text, nullable=False),
        sa.Column("throughput", sa.Float),
        sa.Column("latency_p90", sa.Float),
        sa.Column("latency_p99", sa.Float),
        sa.Column("accuracy", sa.Float),
        sa.Column("power", sa.Float),
        sa.Column("energy_per_sample", sa.Float),
        sa.Column("energy_tier", sa.Text, nullable=False),
        sa.Column("measured_at", sa.Text, nullable=False),
        sa.Column("figures_from", sa.Text, nullable=False),
    )
    op.create_index("ix_run_organization", "run", ["organization"])
    op.create_index("ix_run_place_id", "run", ["place_id"])
    op.create_index("ix_run_round", "run", ["round"])
    op.create_index("ix_run_series", "run", ["series"])
    op.create_index("ix_run_system", "run", ["system"])
    op.create_index("ix_run_system_id", "run", ["system_id"])
    op.create_index(
        "run_by_work", "run", [sa.text("lower(benchmark)"), sa.text("lower(scenario)"), "value"]
    )
    op.create_table(
        "detail",
        sa.Column("run_uid", sa.String(16), sa.ForeignKey("run.uid"), primary_key=True),
        sa.Column("result", sa.JSON, nullable=False),
    )
