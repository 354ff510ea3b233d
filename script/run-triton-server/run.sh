#!/bin/bash
set -euo pipefail

scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
export PYTHONPATH="${scripts}/run-triton-server/src:${scripts}/get-triton-client/src"

# The program takes this shell's place, so that a signal reaches it and not only the shell.
exec "${CM_PYTHON_BIN_WITH_PATH}" -m triton_server "${CM_TRITON_SERVER_PROGRAM}" \
  "${CM_TRITON_SERVER_REQUEST}"
