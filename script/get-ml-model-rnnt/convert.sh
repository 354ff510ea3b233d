#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/convert.py" \
  --checkpoint "${CM_RNNT_CHECKPOINT_FILE}" \
  --harness "${scripts}/app-mlperf-inference/src" \
  ${CM_RNNT_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
