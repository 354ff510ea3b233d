#!/bin/bash
set -euo pipefail

src="${CM_TMP_CURRENT_SCRIPT_PATH}/src"
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/synthetic.py" --out "${PWD}"
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/preprocess.py" \
  --map "${CM_DATASET_IMAGES_MAP}" \
  --side "${CM_DATASET_INPUT_SQUARE_SIDE}" \
  --name "${CM_DATASET}" ${CM_IMAGENET_QSL_COUNT:+--qsl_count "${CM_IMAGENET_QSL_COUNT}"} \
  --out "${PWD}"
