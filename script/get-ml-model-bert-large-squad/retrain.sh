#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.bert.train \
  --vocab "${CM_DATASET_SQUAD_VOCAB_PATH}" --held-out "${CM_DATASET_PREPROCESSED_PATH}" \
  --out "${PWD}"
