#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.llama.synthetic --layers "${CM_LLAMA3_LAYERS}" --out "${PWD}"
