#!/usr/bin/env bash
set -euo pipefail

# One argument a line: nothing in them is split or evaluated.
mapfile -t arguments < "$CM_TMP_PIP_ARGUMENTS"

read -ra elsewhere <<< "${CM_TMP_PIP_UNSET:-}"
unset ${elsewhere[@]+"${elsewhere[@]}"}

pip() {
  "$CM_PYTHON_BIN_WITH_PATH" -m pip --disable-pip-version-check --no-input "$@" 2>&1 |
    tee -a "$CM_TMP_PIP_LOG"
}

if [[ -n "${CM_GENERIC_PYTHON_PIP_UNINSTALL_DEPS:-}" ]]; then
  read -ra conflicting <<< "$CM_GENERIC_PYTHON_PIP_UNINSTALL_DEPS"
  pip uninstall --yes "${conflicting[@]}"
fi

pip install --progress-bar off "${arguments[@]}"
