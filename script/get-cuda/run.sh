#!/usr/bin/env bash
set -euo pipefail

case "${CM_TMP_CUDA_INSTALL:-}" in
pip)
  mapfile -t words <<<"$CM_TMP_CUDA_PIP"
  # A folder of its own: nothing of the Python that installs is changed, or of its user.
  unset PIP_USER PIP_PREFIX PIP_ROOT
  exec "$CM_PYTHON_BIN_WITH_PATH" -m pip install --disable-pip-version-check --no-input \
    --progress-bar off --no-user --target "$CM_TMP_CUDA_WHEELS" "${words[@]}"
  ;;
package-manager)
  exec bash -c "$CM_TMP_CUDA_COMMAND"
  ;;
esac
