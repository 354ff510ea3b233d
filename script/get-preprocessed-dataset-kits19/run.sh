#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/preprocess.py" \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_KITS19_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
