"""Cut the logs of a tree: all of them or, when something goes wrong, none."""

from __future__ import annotations

from typing import Any


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say which logs were cut."""
    from mlperf.submission import build, inputs, truncate

    tree = inputs.tree(i["env"])
    build.refuse_foreign(tree)
    cut = build.edit(tree, truncate.truncate_all)
    print(f"{len(cut)} accuracy logs cut in {tree}")
    for log in cut:
        print(f"  {log.size} bytes, hash {log.sha256[:16]}…: {'/'.join(log.folder.parts[-4:])}")
    return {"return": 0}
