#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.made_cases --dataset kits19 \
  --part "${CM_DATASET_TYPE}" --out "${PWD}"
