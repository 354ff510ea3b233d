#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" get-ml-model-retinanet
# The models of all detectors are built by the programs of one script.
programs="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-ml-model-retinanet/src"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${programs}/synthetic.py" --model ssd-mobilenet --out "${PWD}"
