#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-dataset-criteo get-preprocessed-dataset-criteo
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --version "${CM_DLRM_VERSION}" --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
