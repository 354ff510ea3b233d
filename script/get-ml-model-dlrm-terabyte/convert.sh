#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.dlrm.convert \
  --checkpoint "${CM_DLRM_CHECKPOINT_PATH}" \
  --version "${CM_DLRM_VERSION}" \
  ${CM_DLRM_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
