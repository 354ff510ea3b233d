"""Say which images to preprocess, and hand out the arrays that preprocessing has written."""

from __future__ import annotations

from cmbench.lib import siblings

datasets = siblings.hooks(__file__, "datasets")

preprocess, postprocess = datasets.detection_pictures, datasets.full_arrays
