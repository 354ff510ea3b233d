#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/synthetic.py" \
  --version "${CM_DLRM_VERSION}" --most-rows "${CM_DLRM_MOST_ROWS}" --out "${PWD}"
