#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/preprocess.py" \
  --part "${CM_DATASET_PATH}" \
  --name "${CM_DATASET}" \
  "${CM_DATASET_LIBRISPEECH_COUNT_OPTION}" "${CM_DATASET_LIBRISPEECH_QSL}" \
  --out "${PWD}"
