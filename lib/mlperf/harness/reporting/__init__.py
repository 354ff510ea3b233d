"""The reports of a session: results.json, tables, pages, README files."""
