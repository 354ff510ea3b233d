#!/bin/bash
set -euo pipefail
mapfile -d '' -t words < "${CM_TMP_RUN_DIR}/arguments"
case "${CM_LLAMA_PROGRAM}" in
  fetch) exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.fetch "${words[@]}" ;;
  convert) exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.convert "${words[@]}" ;;
  synthetic) exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.synthetic "${words[@]}" ;;
esac
