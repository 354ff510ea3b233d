"""The history of the tables, for Alembic: each file of ``versions`` is one change."""
