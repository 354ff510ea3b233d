#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.brats.synthetic \
    --part "${CM_DATASET_TYPE}" --window "${CM_DATASET_BRATS_WINDOW}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.brats.preprocess \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_BRATS_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
