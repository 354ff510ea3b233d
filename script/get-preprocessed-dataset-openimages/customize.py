"""Choose the images to preprocess, and export the arrays that preprocessing has written."""

from __future__ import annotations

from modelzoo.hooks import datasets

preprocess, postprocess = datasets.detection_pictures, datasets.full_arrays
