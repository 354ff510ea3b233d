"""Pack a folder; the archive appears when it is whole."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say what was packed."""
    from mlperf.submission import inputs, pack

    env = i["env"]
    folder = inputs.optional(env, "CM_TAR_INPUT_DIR")
    if folder is None:
        raise Error("needs-input", "no folder is named", hint="give --input_dir=FOLDER")
    name = env.get("CM_TAR_OUTFILE") or f"{folder.name}.tar.gz"
    target = inputs.folder(os.path.join(env.get("CM_TAR_OUTPUT_DIR") or "", name))
    packed = pack.pack_folder(folder, target)
    print(f"packed: {target} ({len(packed)} files)")
    env["CM_TAR_OUTFILE"] = str(target)
    return {"return": 0}
