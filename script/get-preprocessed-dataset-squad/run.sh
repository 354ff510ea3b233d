#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.squad.synthetic --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.squad.preprocess \
  ${CM_SQUAD_TOKENIZED:+--tokenized "${CM_SQUAD_TOKENIZED}"} \
  --questions "${CM_SQUAD_QUESTIONS}" --vocab "${CM_DATASET_SQUAD_VOCAB_PATH}" \
  --name "${CM_DATASET}" ${CM_SQUAD_QSL_COUNT:+--qsl_count "${CM_SQUAD_QSL_COUNT}"} \
  ${CM_SQUAD_LIST:+--list "${CM_SQUAD_LIST}" --listed "${CM_SQUAD_LISTED}"} \
  --out "${PWD}"
