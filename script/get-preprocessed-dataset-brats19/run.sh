#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.noise --dataset brats \
    --part "${CM_DATASET_TYPE}" --window "${CM_DATASET_BRATS_WINDOW}" \
    --name "${CM_DATASET}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.preprocess --dataset brats \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_BRATS_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
