"""Use a checkout that is there, or clone one; either way know its revision."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import checkouts

FOLDER = "inference"
CHECKER = os.path.join("tools", "submission")
OWN_CHECKOUT = (
    "without a network, give a checkout: --inference_src=FOLDER, or a mirror: "
    "--adr.inference-src.env.CM_GIT_URL=URL"
)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find or clone the sources; raises Error when there is no checker in them."""
    env = i["env"]
    own_path = env.get("CM_MLPERF_INFERENCE_SRC_PATH")
    if own_path:
        folder = os.path.abspath(os.path.expanduser(own_path))
        relies_on = [os.path.join(folder, CHECKER)]
    else:
        folder = os.path.join(os.getcwd(), FOLDER)
        checkouts.clone(env["CM_GIT_URL"], requested_revision(env), folder, OWN_CHECKOUT)
        relies_on = []
    if not os.path.isdir(os.path.join(folder, CHECKER)):
        raise Error(
            "no-checker",
            f"{folder} is not a checkout of mlcommons/inference: it has no {CHECKER}",
            hint="give a checkout of github.com/mlcommons/inference: --inference_src=FOLDER",
        )
    revision = checkouts.revision(folder)[1] or "unknown"
    env["CM_MLPERF_INFERENCE_SOURCE"] = folder
    env["CM_MLPERF_INFERENCE_SOURCE_VERSION"] = revision
    return {"return": 0, "version": revision[:12], "relies_on": relies_on}


def requested_revision(env: dict[str, Any]) -> str:
    """Return the requested branch, tag or revision; a version is one of them too."""
    return str(env.get("CM_VERSION") or env["CM_GIT_CHECKOUT"])
