#!/bin/bash
set -euo pipefail

exec "${CM_PYTHON_BIN_WITH_PATH}" -m aws_neuron.compiling "${CM_NEURON_COMPILE_REQUEST}"
