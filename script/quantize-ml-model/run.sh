#!/bin/bash
set -euo pipefail

exec "${CM_PYTHON_BIN_WITH_PATH}" -m mlperf.harness.quantization "${CM_QUANTIZE_CONFIG}"
