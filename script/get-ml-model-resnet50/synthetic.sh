#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/synthetic.py" \
  --out "${PWD}" --width "${CM_RESNET50_WIDTH}"
