#!/bin/bash
set -euo pipefail

# Words may hold anything but the byte that ends each.
mapfile -d '' -t words <"${CM_ENDPOINT_BENCH_ARGUMENTS}"
rm -f -- "${CM_ENDPOINT_BENCH_ARGUMENTS}"

# Not in the user's folder, whose modules `python -m` would import first. The program replaces this
# shell, so that a signal reaches it and not only the shell.
cd "${CM_TMP_RUN_DIR}"
exec "${CM_PYTHON_BIN_WITH_PATH}" -m "${CM_ENDPOINT_BENCH_MODULE}" "${words[@]}"
