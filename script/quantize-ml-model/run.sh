#!/bin/bash
set -euo pipefail

export PYTHONPATH="${CM_QUANTIZE_HARNESS}${PYTHONPATH:+:${PYTHONPATH}}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf_harness quantize "${CM_QUANTIZE_CONFIG}"
