"""Serve the pages as ``cm gui script`` does, under the words by which CM's users know them."""

from __future__ import annotations

import os
from typing import Any

FLAGS = ("port", "address", "title", "db", "no_browser", "no_run")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Serve until Ctrl-C; the output is printed at once, and is all that the script returns."""
    from cmbench.session.workspace import Workspace
    from cmbench_gui.verbs import serve_pages, start_page

    env = i["env"]
    inputs = {name: env.get(f"CM_GUI_{name.upper()}", "") for name in FLAGS}
    flags = {name: value for name, value in inputs.items() if value not in ("", None)}
    home = os.path.abspath(str(i["automation"].cmind.repos_path))
    tags = str(env.get("CM_GUI_SCRIPT_TAGS") or "")
    if env.get("CM_GUI_APP") == "graph":
        page = "/results"
    else:
        page = start_page(Workspace.open(home), tags, "", {}) if tags else "/"
    serve_pages(home, flags, page, print)
    return {"return": 0}
