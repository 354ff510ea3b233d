#!/bin/bash
set -euo pipefail
source "${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/env.sh" app-mlperf-inference
exec "${CM_PYTHON_BIN_WITH_PATH}" -m workshop.torchscript --out "${PWD}"
