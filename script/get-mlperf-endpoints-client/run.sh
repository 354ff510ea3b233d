#!/bin/bash
set -euo pipefail

"${CM_PYTHON_BIN_WITH_PATH}" -m venv client
# Into this environment, whatever the user has set for other installs.
unset PIP_TARGET PIP_USER PIP_PREFIX PIP_ROOT
client/bin/python -m pip install --no-user --target= --quiet --disable-pip-version-check "${CM_MLPERF_ENDPOINTS_SOURCE}"
