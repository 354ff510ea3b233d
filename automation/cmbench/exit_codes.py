"""Exit codes, by the convention of CM, so that existing callers keep working."""

from __future__ import annotations

EXIT_ERROR = 1
EXIT_SCRIPT_FAILED = 2
EXIT_BAD_REQUEST = 4
"""Something named in the request does not exist in the form asked for."""
EXIT_NOT_FOUND = 16
"""Nothing was found for tags, variations or versions."""
EXIT_INTERRUPTED = 130
