"""Set the folders of the two dependencies, and export the resulting path."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    env["CM_DAE_URL"] = env.get("CM_DAE_URL") or env.get("CM_DOWNLOAD_URL", "")
    if not (env["CM_DAE_URL"] or env.get("CM_DOWNLOAD_LOCAL_FILE_PATH")):
        raise Error("bad-value", "no URL to download from", hint="give one with --url=...")
    # Both work where this step does: in the current directory, or in the cache entry.
    env["CM_DOWNLOAD_PATH"] = env.get("CM_DOWNLOAD_PATH") or os.getcwd()
    env["CM_EXTRACT_PATH"] = env.get("CM_EXTRACT_PATH") or os.getcwd()
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    extracted = is_yes(env.get("CM_DAE_EXTRACT_DOWNLOADED"))
    # Without the question, a path that an earlier step of the caller has set would be taken.
    path = env["CM_EXTRACT_EXTRACTED_PATH" if extracted else "CM_DOWNLOAD_DOWNLOADED_PATH"]
    env["CM_GET_DEPENDENT_CACHED_PATH"] = path
    final = env.get("CM_DAE_FINAL_ENV_NAME")
    if final:
        env[final] = path
    return {"return": 0}
