#!/bin/bash
set -euo pipefail
scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --news "${scripts}/get-dataset-cnndm/src" \
  --harness "${scripts}/app-mlperf-inference/src" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
