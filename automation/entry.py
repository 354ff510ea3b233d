"""The way from ``cm <verb> <thing>`` to the engine; every automation's ``module.py`` loads it.

The ``_cm.json`` beside such a module is read by cmind in every command: JSON, because cmind parses
YAML in Python. By ``use_any_action`` every verb arrives at the method ``any``, so that verbs may
have names that Python reserves (``import``) and so that help and unknown verbs are answered by us
as well. cmind prints a method's docstring for ``--help`` and stops, except for those in
``actions_with_help``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_AUTOMATIONS = os.path.dirname(os.path.abspath(__file__))


def answer(thing: str, automation: Any, i: dict[str, Any]) -> dict[str, Any]:
    """Answer one request to an automation: from cmind's request to a CM return dict.

    ``automation`` is the cmind object that got it.
    """
    # Pulled or registered, it meets Pythons that pip would have refused.
    if sys.version_info < (3, 10):  # noqa: UP036
        found = f"{sys.executable} is {sys.version.split()[0]}"
        return {"return": 1, "error": f"cmbench needs Python 3.10 or newer and {found}"}
    # A checkout that was only pulled or registered carries the engine beside this file.
    in_checkout = os.path.isdir(os.path.join(_AUTOMATIONS, "cmbench"))
    if in_checkout and "cmbench" not in sys.modules:
        sys.path.insert(0, _AUTOMATIONS)
    try:
        from cmbench.cli import adapter
    except ModuleNotFoundError as missing:
        fix = f"{sys.executable} -m pip install {missing.name}"
        return {"return": 1, "error": f"{missing} (needed by {__file__}): try {fix}"}
    return adapter.answer(thing, automation, i)
