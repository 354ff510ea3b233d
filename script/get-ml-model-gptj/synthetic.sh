#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.gptj.synthetic \
  --layers "${CM_GPTJ_LAYERS}" --out "${PWD}"
