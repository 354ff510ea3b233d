#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/make_dataset.py" \
  --part "${CM_DATASET_TYPE}" --out "${PWD}"
