#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/preprocess.py" \
  --map "${CM_DATASET_IMAGES_MAP}" \
  --side "${CM_DATASET_INPUT_SQUARE_SIDE}" \
  --name "${CM_DATASET}" \
  --out "${PWD}"
