#!/bin/bash
set -euo pipefail

# Words may hold anything but the byte that ends each.
mapfile -d '' -t words <"${CM_TRITON_BENCH_ARGUMENTS}"
rm -f -- "${CM_TRITON_BENCH_ARGUMENTS}"

# The program takes this shell's place, so that a signal reaches it and not only the shell.
exec "${CM_PYTHON_BIN_WITH_PATH}" -m "${CM_TRITON_BENCH_MODULE}" "${words[@]}"
