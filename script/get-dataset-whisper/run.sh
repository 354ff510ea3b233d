#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
case "${CM_DATASET_FORM:-}" in
  small)
    exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.librispeech.spoken \
      "${words[@]}" --out "${PWD}" ;;
  tiny)
    exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.preprocess \
      "${words[@]}" --out "${PWD}" ;;
esac
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.librispeech.repack \
  "${words[@]}" --out "${PWD}"
