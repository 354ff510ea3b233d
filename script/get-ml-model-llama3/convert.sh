#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.convert \
  --checkpoint "${LLAMA3_CHECKPOINT_PATH}" --framework "${CM_ML_MODEL_FRAMEWORK}" \
  ${CM_LLAMA3_OTHER_SIZE:+--other-size} \
  --out "${PWD}"
