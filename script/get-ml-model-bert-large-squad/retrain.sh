#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-dataset-squad get-preprocessed-dataset-squad app-mlperf-inference
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --vocab "${CM_DATASET_SQUAD_VOCAB_PATH}" --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
