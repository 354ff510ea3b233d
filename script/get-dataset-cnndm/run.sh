#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/make_dataset.py" \
  "${words[@]}" --out "${PWD}"
