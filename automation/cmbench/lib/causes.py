"""Known causes of failures: what a program printed, matched to what to do next.

The table itself is data, in ``causes.yaml`` beside this file.
"""

from __future__ import annotations

import os
import re


def remedy(text: str) -> str:
    """What to do about the first known cause found in ``text``; empty when there is none."""
    import yaml

    path = os.path.join(os.path.dirname(__file__), "causes.yaml")
    with open(path, encoding="utf-8") as stream:
        table = yaml.safe_load(stream)
    for cause in table:
        if re.search(cause["match"], text, re.MULTILINE):
            return str(cause["remedy"])
    return ""
