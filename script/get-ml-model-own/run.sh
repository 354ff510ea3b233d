#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.own_model.describe --out "${PWD}" \
  --model "${CM_ML_MODEL_OWN_PATH}" --data "${CM_ML_MODEL_OWN_DATA}" \
  --shapes "${CM_ML_MODEL_OWN_SHAPES}" --count "${CM_ML_MODEL_OWN_COUNT}"
