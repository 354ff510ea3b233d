#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-dataset-kits19 get-preprocessed-dataset-kits19 app-mlperf-inference
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
