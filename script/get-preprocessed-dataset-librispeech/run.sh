#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
src="${CM_TMP_CURRENT_SCRIPT_PATH}/src"
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/synthetic.py" \
    --qsl-count "${CM_DATASET_LIBRISPEECH_QSL}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/preprocess.py" \
  --part "${CM_DATASET_PATH}" \
  --name "${CM_DATASET}" \
  "${CM_DATASET_LIBRISPEECH_COUNT_OPTION}" "${CM_DATASET_LIBRISPEECH_QSL}" \
  --out "${PWD}"
