#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.whisper.train --held-out "${CM_DATASET_PREPROCESSED_PATH}" --out "${PWD}"
