#!/bin/bash
set -euo pipefail
if [[ "${CM_DATASET_FORM:-}" == synthetic ]]; then
  exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.imagenet.synthetic --out "${PWD}"
fi
# There is a process for each processor already.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
words=(
  --map "${CM_DATASET_IMAGES_MAP}"
  --side "${CM_DATASET_INPUT_SQUARE_SIDE}"
  --name "${CM_DATASET}"
  --out "${CM_DATASET_PREPROCESSED_OUT}"
)
if [[ -n "${CM_IMAGENET_QSL_COUNT:-}" ]]; then
  words+=(--qsl_count "${CM_IMAGENET_QSL_COUNT}")
fi
if [[ -n "${CM_DATASET_IMAGES_FOLDER:-}" ]]; then
  words+=(--images "${CM_DATASET_IMAGES_FOLDER}")
fi
if [[ -n "${CM_DATASET_IMAGES_ONLY:-}" ]]; then
  words+=(--only "${CM_DATASET_IMAGES_ONLY}")
fi
if [[ -n "${CM_DATASET_IMAGES_COUNT:-}" ]]; then
  words+=(--count "${CM_DATASET_IMAGES_COUNT}")
fi
if [[ "${CM_IMAGENET_STEPS:-}" == torchvision && -z "${CM_DATASET_FORM:-}" ]]; then
  words+=(--torchvision)
  if [[ -n "${CM_IMAGENET_SCRATCH_PATH:-}" && "${CM_DATASET_TYPE}" == validation ]]; then
    words+=(--scratch "${CM_IMAGENET_SCRATCH_PATH}")
  fi
fi
exec "${CM_PYTHON_BIN_WITH_PATH}" -m modelzoo.preprocessing.imagenet.preprocess "${words[@]}"
