#!/bin/bash
set -euo pipefail

export PYTHONPATH="${CM_TMP_CURRENT_SCRIPT_PATH}/src${PYTHONPATH:+:${PYTHONPATH}}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m neuron_compile "${CM_NEURON_COMPILE_REQUEST}"
