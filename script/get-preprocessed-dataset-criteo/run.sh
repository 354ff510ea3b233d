#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/${CM_CRITEO_PROGRAM}" \
  "${words[@]}" --out "${PWD}"
