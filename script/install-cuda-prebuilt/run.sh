#!/usr/bin/env bash
set -euo pipefail

mapfile -t words <<<"$CM_TMP_CUDA_WORDS"
echo "bash $CM_CUDA_RUN_FILE_PATH ${words[*]}"
exec bash "$CM_CUDA_RUN_FILE_PATH" "${words[@]}"
