#!/bin/bash
set -euo pipefail
exec "${BASH}" "${CM_TMP_CURRENT_SCRIPT_PATH}/../run-triton-server/run.sh"
