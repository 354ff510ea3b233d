#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
if [[ -n "${CM_DATASET_FORM:-}" ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.preprocess \
    "${words[@]}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.repack \
  "${words[@]}" --out "${PWD}"
