#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/describe.py" --out "${PWD}" \
  --model "${CM_ML_MODEL_OWN_PATH}" --data "${CM_ML_MODEL_OWN_DATA}" \
  --shapes "${CM_ML_MODEL_OWN_SHAPES}" --count "${CM_ML_MODEL_OWN_COUNT}"
