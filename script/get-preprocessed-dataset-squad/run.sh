#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
src="${CM_TMP_CURRENT_SCRIPT_PATH}/src"
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/synthetic.py" --out "${PWD}"
fi
scratch="${CM_SQUAD_SCRATCH_PATH:-}"
if [[ "${CM_DATASET_TYPE}" != validation ]]; then
  scratch=""
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/preprocess.py" ${scratch:+--scratch "${scratch}"} \
  --questions "${CM_SQUAD_QUESTIONS}" --vocab "${CM_DATASET_SQUAD_VOCAB_PATH}" \
  --name "${CM_DATASET}" ${CM_SQUAD_QSL_COUNT:+--qsl_count "${CM_SQUAD_QSL_COUNT}"} \
  ${CM_SQUAD_LIST:+--list "${CM_SQUAD_LIST}" --listed "${CM_SQUAD_LISTED}"} \
  --out "${PWD}"
