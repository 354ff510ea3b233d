#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
if [[ -n "${CM_TMP_ML_MODEL:-}" ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.cnndm.make_llama3 \
    "${words[@]}" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.cnndm.make_dataset \
  "${words[@]}" --out "${PWD}"
