#!/usr/bin/env bash
set -euo pipefail

# Isolated: a venv.py or another module of the current directory must not be taken for the real one.
exec "$CM_PYTHON_BIN_WITH_PATH" -I -m venv "$CM_TRITON_SERVER_ENVIRONMENT"
