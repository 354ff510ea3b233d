#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.digits.make_dataset --out "${PWD}"
