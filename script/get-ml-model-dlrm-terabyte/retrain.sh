#!/bin/bash
set -euo pipefail
scripts="$(dirname "${CM_TMP_CURRENT_SCRIPT_PATH}")"
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --version "${CM_DLRM_VERSION}" \
  --world "${scripts}/get-dataset-criteo/src" \
  --preprocess "${scripts}/get-preprocessed-dataset-criteo/src" \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
