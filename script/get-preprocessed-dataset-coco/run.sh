#!/bin/bash
set -euo pipefail
exec bash "${CM_TMP_CURRENT_SCRIPT_PATH}/../get-preprocessed-dataset-openimages/run.sh"
