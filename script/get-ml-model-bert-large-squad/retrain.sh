#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/train.py" \
  --scripts "${CM_TMP_CURRENT_SCRIPT_PATH}/.." --vocab "${CM_DATASET_SQUAD_VOCAB_PATH}" \
  --dataset "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
