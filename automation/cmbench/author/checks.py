"""Every check of the linter; the modules that define them register them when they are imported."""

from __future__ import annotations

from collections.abc import Mapping

from cmbench.author import lint_files, lint_libraries, lint_meta
from cmbench.author.lint import CHECKS, LintCheck

MODULES = (lint_files, lint_libraries, lint_meta)
REGISTRY: Mapping[str, LintCheck] = CHECKS
"""The checks of all modules by their numbers."""
