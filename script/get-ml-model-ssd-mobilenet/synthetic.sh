#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh"
# The models of all detectors are built by the programs of one script.
exec "${CM_PYTHON_BIN_WITH_PATH}" "${CM_DETECTOR_PROGRAMS}/synthetic.py" \
  --model "${CM_ML_MODEL}" --out "${PWD}"
