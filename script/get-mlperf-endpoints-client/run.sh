#!/bin/bash
set -euo pipefail

"${CM_PYTHON_BIN_WITH_PATH}" -m venv client
client/bin/python -m pip install --quiet --disable-pip-version-check "${CM_MLPERF_ENDPOINTS_SOURCE}"
