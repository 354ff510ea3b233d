"""Tumours in three dimensions: data, preprocessing and tiny models of BraTS 2019 and KiTS19.

``brains`` and ``kidneys`` make cases up, ``made_cases`` writes them; ``brats`` and ``kits19`` read
cases and transform them, ``preprocess`` writes the arrays of ``arrays``, and so does ``noise``;
``train`` makes the tiny models of ``network``.
"""
