#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/src/fetch.py" "${CM_OPENIMAGES_LIST}"
