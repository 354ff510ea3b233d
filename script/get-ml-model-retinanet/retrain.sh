#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
scripts="${CM_TMP_CURRENT_SCRIPT_PATH}/.."
# It is scored by the benchmark's own code.
export PYTHONPATH="${scripts}/app-mlperf-inference/src${PYTHONPATH:+:${PYTHONPATH}}"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${scripts}/get-ml-model-retinanet/src/train.py" \
  --form retinanet \
  --training "${CM_DATASET_PREPROCESSED_TRAINING_PATH}" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
