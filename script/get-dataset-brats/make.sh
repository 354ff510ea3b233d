#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.brats.make_dataset \
  --part "${CM_DATASET_TYPE}" --out "${PWD}"
