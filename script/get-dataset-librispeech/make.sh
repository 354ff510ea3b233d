#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.librispeech.make_dataset --out "${PWD}"
