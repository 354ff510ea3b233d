#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.whisper.small \
  --reference "${CM_TMP_CURRENT_SCRIPT_PATH}/small" --out "${PWD}"
