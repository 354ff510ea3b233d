#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.small --framework "${CM_ML_MODEL_FRAMEWORK}" \
  --reference "${CM_TMP_CURRENT_SCRIPT_PATH}/small" --out "${PWD}"
