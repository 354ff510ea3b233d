#!/usr/bin/env bash
set -euo pipefail

# Isolated: a venv.py or another module of the current directory must not be taken for the real one.
read -ra options <<< "${CM_TMP_VENV_OPTIONS:-}"
exec "$CM_PYTHON_BIN_WITH_PATH" -I -B -m venv ${options[@]+"${options[@]}"} "$CM_VIRTUAL_ENV_PATH"
