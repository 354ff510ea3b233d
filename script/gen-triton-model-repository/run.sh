#!/bin/bash
set -euo pipefail

exec "${CM_PYTHON_BIN_WITH_PATH}" -m serving.repository "${CM_TRITON_SERVER_REQUEST}"
