#!/bin/bash
set -euo pipefail

# The program takes this shell's place, so that a signal reaches it and not only the shell.
mapfile -d '' -t words <"${CM_TEXT_SERVER_ARGUMENTS}"
cd "${CM_TMP_RUN_DIR}"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${words[@]}"
