#!/bin/bash
set -euo pipefail

exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf.harness.engines "${CM_TMP_ENGINE_CONFIG}"
