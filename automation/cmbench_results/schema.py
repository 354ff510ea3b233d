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
    sa.Column("throughput_per_accelerator", sa.Float),
    sa.Column("throughput_per_watt", sa.Float),
    sa.Column("throughput_per_core", sa.Float),
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

crowd_sender = sa.Table(
    "crowd_sender",
    metadata,
    # A digest of the public key, which is what pages call a contributor by.
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("since", sa.Float, nullable=False),
    sa.Column("blocked", sa.Boolean, nullable=False),
)

crowd_run = sa.Table(
    "crowd_run",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("sender", sa.String(16), sa.ForeignKey("crowd_sender.id"), nullable=False),
    sa.Column("network", sa.String(16), nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("state", sa.Text, nullable=False, index=True),
    sa.Column("tier", sa.Text, nullable=False),
    # The classes that are compared: equal hardware and equal work.
    sa.Column("hardware", sa.String(16), nullable=False),
    sa.Column("work", sa.String(16), nullable=False),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("log_digest", sa.String(64), nullable=False, index=True),
    sa.Column("lease", sa.String(32), nullable=False),
    sa.Column("value", sa.Float),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("checks", sa.JSON, nullable=False),
    sa.Column("result", sa.Text, nullable=False),
    sa.Index("crowd_run_by_class", "hardware", "work"),
    sa.Index("crowd_run_by_sender", "sender", "at"),
    sa.Index("crowd_run_by_network", "network", "at"),
)

crowd_work = sa.Table(
    "crowd_work",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("wanted", sa.Integer, nullable=False),
)

crowd_lease = sa.Table(
    "crowd_lease",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("work_id", sa.String(32), sa.ForeignKey("crowd_work.id"), nullable=False, index=True),
    sa.Column("sender", sa.String(16), nullable=False),
    sa.Column("seed", sa.String(20), nullable=False),
    sa.Column("deadline", sa.Float, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)

crowd_event = sa.Table(
    "crowd_event",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
    sa.Column("told", sa.Text, nullable=False),
)
"""What a server of volunteers' results has done; the database refuses to change or remove a row."""

WORDS = (
    *("benchmark", "model", "form", "scenario", "round", "division", "category"),
    *("organization", "system", "system_id", "cpu", "accelerator", "framework", "backend"),
    *("device", "precision", "tier", "validity", "availability", "energy_tier", "figures_from"),
    *("unit", "series"),
)
"""Columns of text, by which results are chosen."""

COUNTS = ("accelerators", "nodes")
"""Columns of whole numbers, by which results are chosen too."""

FIGURES = (
    *("value", "throughput", "latency_p90", "latency_p99", "accuracy"),
    *("power", "energy_per_sample", "accelerators", "nodes"),
    *("throughput_per_accelerator", "throughput_per_watt", "throughput_per_core"),
)
"""Columns of numbers, by which they are sorted and drawn."""
