#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.dlrm.synthetic \
  --version "${CM_DLRM_VERSION}" --most-rows "${CM_DLRM_MOST_ROWS}" --out "${PWD}"
