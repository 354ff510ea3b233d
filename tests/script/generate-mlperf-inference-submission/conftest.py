"""The packages of this script and of the harness, as the script itself finds them."""

from __future__ import annotations

import submission_lab  # noqa: F401  (puts them on the path)
