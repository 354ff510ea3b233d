#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-ml-model-retinanet app-mlperf-inference
# The models of all detectors are built by the programs of one script.
programs="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-ml-model-retinanet/src"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${programs}/train.py" --form ssd-resnet34 \
  --training "${CM_DATASET_PREPROCESSED_TRAINING_PATH}" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
