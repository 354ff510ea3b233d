#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --brains "${scripts}/get-dataset-brats/src" \
  --preprocessing "${scripts}/get-preprocessed-dataset-brats19/src" \
  --harness "${scripts}/app-mlperf-inference/src" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
