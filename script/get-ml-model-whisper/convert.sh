#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.whisper.convert \
  --checkpoint "${CM_ML_MODEL_WHISPER_PATH}" ${CM_WHISPER_OTHER_SIZE:+--other-size} --out "${PWD}"
