#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.dlrm.train \
  --version "${CM_DLRM_VERSION}" --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
