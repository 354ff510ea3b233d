"""A configuration is all that was set and discovered; the store derives ``series`` anew."""

from __future__ import annotations

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change no table."""
