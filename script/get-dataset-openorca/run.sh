#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.openorca.make_dataset \
  "${words[@]}" --out "${PWD}"
