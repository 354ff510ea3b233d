#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.cnndm.make_dataset \
  "${words[@]}" --out "${PWD}"
