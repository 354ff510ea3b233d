#!/bin/bash
set -euo pipefail

export PYTHONPATH="${CM_TMP_CURRENT_SCRIPT_PATH}/src:${CM_TMP_CURRENT_SCRIPT_PATH}/../compile-neuron-model/src${PYTHONPATH:+:${PYTHONPATH}}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m triton_repository "${CM_TRITON_SERVER_REQUEST}"
