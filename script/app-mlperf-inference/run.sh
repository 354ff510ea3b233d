#!/bin/bash
set -euo pipefail

# The user's directory must not get in the way of what is imported.
cd "${CM_TMP_RUN_DIR}"

# The harness takes this shell's place, so that a signal reaches it and not only the shell.
exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf.harness "${CM_MLPERF_HARNESS_PROGRAM:-session}" \
  "${CM_MLPERF_HARNESS_CONFIG}"
