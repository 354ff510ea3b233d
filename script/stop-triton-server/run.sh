#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m serving.server "${CM_TRITON_SERVER_PROGRAM}" \
  "${CM_TRITON_SERVER_REQUEST}"
