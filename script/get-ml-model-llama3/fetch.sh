#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.fetch \
  ${CM_LLAMA3_TOKEN_FILE:+--token-file "${CM_LLAMA3_TOKEN_FILE}"} \
  --out "${LLAMA3_CHECKPOINT_PATH}"
