#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
src="${CM_TMP_CURRENT_SCRIPT_PATH}/src"
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/synthetic.py" \
    --part "${CM_DATASET_TYPE}" --window "${CM_DATASET_BRATS_WINDOW}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/preprocess.py" \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_BRATS_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
