"""Use a checkout that is there, or clone one; either way know its revision."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import checkouts

FOLDER = "endpoints"
CLIENT = os.path.join("src", "inference_endpoint")
OWN_CHECKOUT = (
    "without a network, give a checkout: --endpoints_src=FOLDER, or a mirror: "
    "--adr.endpoints-src.env.CM_GIT_URL=URL"
)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find or clone the sources; raises Error when the client is not in them."""
    env = i["env"]
    own_path = env.get("CM_MLPERF_ENDPOINTS_SRC_PATH")
    if own_path:
        folder = os.path.abspath(os.path.expanduser(own_path))
        relies_on = [os.path.join(folder, CLIENT)]
    else:
        folder = os.path.join(os.getcwd(), FOLDER)
        checkouts.clone(env["CM_GIT_URL"], env["CM_GIT_CHECKOUT"], folder, OWN_CHECKOUT)
        relies_on = []
    if not os.path.isdir(os.path.join(folder, CLIENT)):
        raise Error(
            "bad-value",
            f"{folder} is not a checkout of mlcommons/endpoints: it has no {CLIENT}",
            hint="give a checkout of github.com/mlcommons/endpoints: --endpoints_src=FOLDER",
        )
    revision = checkouts.revision(folder)[1] or "unknown"
    if revision.endswith("+changes"):
        print(
            "note: the client was changed; its results cannot be submitted (Endpoints rules 2.1.1)"
        )
    env["CM_MLPERF_ENDPOINTS_SOURCE"] = folder
    env["CM_MLPERF_ENDPOINTS_SOURCE_VERSION"] = revision
    return {"return": 0, "version": revision[:12], "relies_on": relies_on}
