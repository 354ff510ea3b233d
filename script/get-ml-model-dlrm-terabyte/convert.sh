#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/convert.py" \
  --checkpoint "${CM_DLRM_CHECKPOINT_PATH}" \
  --version "${CM_DLRM_VERSION}" \
  ${CM_DLRM_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
