#!/bin/bash
set -euo pipefail

# The program takes this shell's place, so that a signal reaches it and not only the shell.
cd "${CM_TMP_RUN_DIR}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf.endpoints.client_runs \
  "${CM_MLPERF_ENDPOINTS_CALL}" "${CM_MLPERF_ENDPOINTS_ANSWER}"
