"""The tables, the same for SQLite and PostgreSQL; ``migrations`` makes them and changes them.

A run's columns are what tables of results filter, sort and draw by; the whole result lies apart,
so that looking through many reads little.
"""

from __future__ import annotations

from cmbench_results.sql import sa

metadata = sa.MetaData()

place = sa.Table(
    "place",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("added", sa.Text, nullable=False),
)

run = sa.Table(
    "run",
    metadata,
    sa.Column("uid", sa.String(16), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("place_id", sa.String(16), sa.ForeignKey("place.id"), nullable=False, index=True),
    sa.Column("series", sa.String(16), nullable=False, index=True),
    sa.Column("benchmark", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("form", sa.Text, nullable=False),
    sa.Column("scenario", sa.Text, nullable=False),
    sa.Column("round", sa.Text, nullable=False, index=True),
    sa.Column("division", sa.Text, nullable=False),
    sa.Column("category", sa.Text, nullable=False),
    sa.Column("organization", sa.Text, nullable=False, index=True),
    sa.Column("system", sa.Text, nullable=False, index=True),
    sa.Column("system_id", sa.String(16), nullable=False, index=True),
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
    # Filters do not mind case.
    sa.Index("run_by_work", sa.text("lower(benchmark)"), sa.text("lower(scenario)"), "value"),
)

detail = sa.Table(
    "detail",
    metadata,
    sa.Column("run_uid", sa.String(16), sa.ForeignKey("run.uid"), primary_key=True),
    sa.Column("result", sa.JSON, nullable=False),
)

WORDS = (
    *("benchmark", "model", "form", "scenario", "round", "division", "category"),
    *("organization", "system", "system_id", "cpu", "accelerator", "framework", "backend"),
    *("device", "precision", "tier", "validity", "availability", "energy_tier", "figures_from"),
    *("unit", "series"),
)
"""Columns of text, by which results are chosen."""

FIGURES = (
    *("value", "throughput", "latency_p90", "latency_p99", "accuracy"),
    *("power", "energy_per_sample", "accelerators", "nodes"),
)
"""Columns of numbers, by which they are sorted and drawn."""
