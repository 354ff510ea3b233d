#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.shapes.make_dataset \
  --part "${CM_SHAPES_PART}" --out "${PWD}"
