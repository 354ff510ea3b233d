#!/bin/bash
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
# The models of all detectors are built by one program.
program="${CM_TMP_CURRENT_SCRIPT_PATH}/../get-ml-model-retinanet/src/synthetic.py"
exec "${CM_PYTHON_BIN_WITH_PATH}" "${program}" --model retinanet --out "${PWD}"
