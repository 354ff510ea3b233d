"""The history of the tables, for Alembic: a file of ``versions`` is one change."""
