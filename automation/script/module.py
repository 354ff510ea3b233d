"""The way from ``cm <verb> script`` to the engine: cmind finds this file by its path."""

from __future__ import annotations

import os
import sys
from typing import Any

from cmind.automation import Automation

THING = "script"

_AUTOMATION_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class CAutomation(Automation):
    """What cmind instantiates for each request to the automation ``script``."""

    def any(self, i: dict[str, Any]) -> dict[str, Any]:
        """Answer any verb with the engine: from cmind's request to a CM return dict."""
        # Pulled or registered, it meets Pythons that pip would have refused.
        if sys.version_info < (3, 10):  # noqa: UP036
            found = f"{sys.executable} is {sys.version.split()[0]}"
            return {"return": 1, "error": f"cmbench needs Python 3.10 or newer and {found}"}
        # A checkout that was only pulled or registered carries the engine beside this directory.
        in_checkout = os.path.isdir(os.path.join(_AUTOMATION_DIR, "cmbench"))
        if in_checkout and _AUTOMATION_DIR not in sys.path:
            sys.path.insert(0, _AUTOMATION_DIR)
        try:
            from cmbench.cli import adapter
        except ModuleNotFoundError as missing:
            fix = f"{sys.executable} -m pip install {missing.name}"
            return {"return": 1, "error": f"{missing} (needed by {__file__}): try {fix}"}
        return adapter.answer(THING, self, i)
