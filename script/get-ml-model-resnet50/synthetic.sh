#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.resnet50.synthetic \
  --out "${PWD}" --width "${CM_RESNET50_WIDTH}"
