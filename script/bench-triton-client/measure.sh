#!/bin/bash
set -euo pipefail

# Words may hold anything but the byte that ends each.
mapfile -d '' -t words <"${CM_TRITON_BENCH_ARGUMENTS}"
rm -f -- "${CM_TRITON_BENCH_ARGUMENTS}"

# This runs in the user's folder, whose modules `python -m` would import first. The program replaces
# this shell, so that a signal reaches it and not only the shell.
exec "${CM_PYTHON_BIN_WITH_PATH}" -c 'import sys
sys.path[:] = filter(None, sys.path)
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)' \
  "${CM_TRITON_BENCH_MODULE}" "${words[@]}"
