#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" app-mlperf-inference
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/convert.py" \
  --checkpoint "${CM_RNNT_CHECKPOINT_FILE}" \
  ${CM_RNNT_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
