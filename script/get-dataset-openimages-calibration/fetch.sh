#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-dataset-openimages
src="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-dataset-openimages/src"
"${CM_PYTHON_BIN_WITH_PATH}" "${src}/fetch.py" "${CM_CALIBRATION_FETCH}"
