#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.kits19.synthetic --name "${CM_DATASET}" --out "${PWD}" \
    --part "${CM_DATASET_TYPE}" ${CM_KITS19_SYNTHETIC_COUNT:+--count "${CM_KITS19_SYNTHETIC_COUNT}"}
fi
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.kits19.preprocess \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_KITS19_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
