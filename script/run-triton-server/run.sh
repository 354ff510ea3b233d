#!/bin/bash
set -euo pipefail

# The program takes this shell's place, so that a signal reaches it and not only the shell.
exec "${CM_PYTHON_BIN_WITH_PATH}" -m serving.server "${CM_TRITON_SERVER_PROGRAM}" \
  "${CM_TRITON_SERVER_REQUEST}"
