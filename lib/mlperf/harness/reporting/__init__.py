"""What a session tells: results.json, tables, pages, README files."""
