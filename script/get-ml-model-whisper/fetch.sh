#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.whisper.fetch --out "${CM_ML_MODEL_WHISPER_PATH}"
