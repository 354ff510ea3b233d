"""Get the images that the rules' list names, or check those that the user has."""

from __future__ import annotations

from cmbench.lib import siblings

postprocess = siblings.hooks(__file__, "calibration_pictures").provide
