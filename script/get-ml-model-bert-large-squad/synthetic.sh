#!/bin/bash
set -euo pipefail
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.bert.synthetic \
  --layers "${CM_BERT_LAYERS}" --width "${CM_BERT_WIDTH}" --out "${PWD}"
