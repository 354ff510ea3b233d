"""Cut the logs of a tree: all of them or, when something goes wrong, none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import siblings

siblings.importable(__file__, "generate-mlperf-inference-submission", "app-mlperf-inference")

TREE = "~/mlperf-inference-submission"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say which logs were cut."""
    from mlperf_submission import build, truncate
    from mlperf_submission.errors import SubmissionError

    tree = Path(i["env"].get("CM_MLPERF_INFERENCE_SUBMISSION_DIR") or TREE).expanduser().absolute()
    try:
        build.refuse_foreign(tree)
        cut = build.edit(tree, truncate.truncate_all)
    except SubmissionError as error:
        raise Error(error.kind, str(error), hint=error.hint) from error
    print(f"{len(cut)} accuracy logs cut in {tree}")
    for each in cut:
        print(f"  {each.size} bytes, hash {each.sha256[:16]}…: {'/'.join(each.folder.parts[-4:])}")
    return {"return": 0}
