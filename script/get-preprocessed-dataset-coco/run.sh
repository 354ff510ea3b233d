#!/bin/bash
set -euo pipefail
# The pictures of all detectors are preprocessed by one program.
program="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-preprocessed-dataset-openimages/src/preprocess.py"
"${CM_PYTHON_BIN_WITH_PATH}" "${program}" \
  --annotations "${CM_DATASET_ANNOTATIONS_FILE_PATH}" --images "${CM_DATASET_IMAGES_PATH}" \
  --input "${CM_DETECTION_INPUT}" --side "${CM_DATASET_INPUT_SQUARE_SIDE}" \
  --name "${CM_DATASET}" --count "${CM_DETECTION_COUNT}" \
  --qsl_count "${CM_DETECTION_QSL_COUNT}" --out "${PWD}"
