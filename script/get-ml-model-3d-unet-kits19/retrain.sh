#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --kidneys "${scripts}/get-dataset-kits19/src" \
  --preprocessing "${scripts}/get-preprocessed-dataset-kits19/src" \
  --harness "${scripts}/app-mlperf-inference/src" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
