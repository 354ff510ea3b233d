#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.detectors.synthetic \
  --model "${CM_ML_MODEL}" --out "${PWD}"
