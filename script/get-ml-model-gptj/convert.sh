#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.gptj.convert \
  --checkpoint "${GPTJ_CHECKPOINT_PATH}" \
  ${CM_GPTJ_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
