#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.criteo.make_dataset \
  --part "${CM_CRITEO_PART}" --out "${PWD}"
