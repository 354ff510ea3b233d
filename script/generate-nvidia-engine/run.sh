#!/bin/bash
set -euo pipefail

export PYTHONPATH="${CM_TMP_CURRENT_SCRIPT_PATH}/../app-mlperf-inference/src${PYTHONPATH:+:${PYTHONPATH}}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf_harness engine "${CM_TMP_ENGINE_CONFIG}"
