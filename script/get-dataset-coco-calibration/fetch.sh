#!/bin/bash
set -euo pipefail
src="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-dataset-openimages/src"
"${CM_PYTHON_BIN_WITH_PATH}" "${src}/fetch.py" "${CM_CALIBRATION_FETCH}"
