#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.rnnt.convert \
  --checkpoint "${CM_RNNT_CHECKPOINT_FILE}" \
  ${CM_RNNT_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
