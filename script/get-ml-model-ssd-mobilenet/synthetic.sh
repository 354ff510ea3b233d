#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.synthetic \
  --graph "${CM_TMP_CURRENT_SCRIPT_PATH}"/synthetic/*.onnx.xz --out "${PWD}"
