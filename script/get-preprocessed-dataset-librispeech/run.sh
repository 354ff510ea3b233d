#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.synthetic \
    --qsl-count "${CM_DATASET_LIBRISPEECH_QSL}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.preprocess \
  --part "${CM_DATASET_PATH}" \
  --name "${CM_DATASET}" \
  "${CM_DATASET_LIBRISPEECH_COUNT_OPTION}" "${CM_DATASET_LIBRISPEECH_QSL}" \
  --out "${PWD}"
