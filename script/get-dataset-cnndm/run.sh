#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/make_dataset.py" \
  "${words[@]}" --out "${PWD}"
