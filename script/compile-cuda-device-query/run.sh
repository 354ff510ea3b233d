#!/usr/bin/env bash
set -euo pipefail

# A host compiler that is newer than the toolkit knows will do: there is no device code in this.
exec "$CM_NVCC_BIN_WITH_PATH" -O1 -allow-unsupported-compiler -o "$PWD/device_query" \
  "$CM_TMP_CURRENT_SCRIPT_PATH/device_query.cu"
