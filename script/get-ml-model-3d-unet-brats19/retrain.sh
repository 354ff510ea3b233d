#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.volumes.train --dataset brats \
  --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
