#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" app-mlperf-inference
# The models of all detectors are built by the programs of one script.
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_DETECTOR_PROGRAMS}/train.py" --form "${CM_ML_MODEL}" \
  --training "${CM_DATASET_PREPROCESSED_TRAINING_PATH}" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
