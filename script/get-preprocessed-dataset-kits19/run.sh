#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.noise --dataset kits19 \
    --part "${CM_DATASET_TYPE}" --window "${CM_DATASET_KITS19_WINDOW}" \
    --name "${CM_DATASET}" --out "${PWD}" \
    ${CM_KITS19_SYNTHETIC_COUNT:+--count "${CM_KITS19_SYNTHETIC_COUNT}"}
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.preprocess --dataset kits19 \
  --cases "${CM_DATASET_PATH}" \
  --list "${CM_DATASET_CASES_FILE_PATH}" \
  --window "${CM_DATASET_KITS19_WINDOW}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
