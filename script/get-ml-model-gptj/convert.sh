#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/convert.py" \
  --checkpoint "${GPTJ_CHECKPOINT_PATH}" \
  ${CM_GPTJ_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
