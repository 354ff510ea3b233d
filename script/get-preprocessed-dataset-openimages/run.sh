#!/bin/bash
set -euo pipefail
# The images of all detectors are preprocessed here: get-preprocessed-dataset-coco runs it too.
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-preprocessed-dataset-openimages
src="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-preprocessed-dataset-openimages/src"
words=(
  --input "${CM_DETECTION_INPUT}" --side "${CM_DATASET_INPUT_SQUARE_SIDE}"
  --name "${CM_DATASET}" --count "${CM_DETECTION_COUNT}"
  --qsl_count "${CM_DETECTION_QSL_COUNT}" --out "${PWD}"
)
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/synthetic.py" "${words[@]}"
fi
if [[ -n "${CM_DETECTION_LIST:-}" ]]; then
  words+=(--list "${CM_DETECTION_LIST}" --images "${CM_CALIBRATION_IMAGES_PATH}")
else
  words+=(--annotations "${CM_DATASET_ANNOTATIONS_FILE_PATH}" --images "${CM_DATASET_IMAGES_PATH}")
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" "${src}/preprocess.py" "${words[@]}"
