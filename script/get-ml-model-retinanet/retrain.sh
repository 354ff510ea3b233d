#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.detectors.train --form "${CM_ML_MODEL}" \
  --training "${CM_DATASET_PREPROCESSED_TRAINING_PATH}" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
