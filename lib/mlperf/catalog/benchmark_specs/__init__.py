"""One module per benchmark, with its specifications as ``SPECS``.

Sources, where a module names no other: the settings of every round's official submission checker,
LoadGen's mlperf.conf, and the audit.config files of the compliance tests (mlcommons/inference).
"""
