#!/bin/bash
set -euo pipefail
"${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.datasets.openimages.fetch "${CM_CALIBRATION_FETCH}"
