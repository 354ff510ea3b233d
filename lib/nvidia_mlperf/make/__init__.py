"""The words of NVIDIA's ``make`` lines, from the line to the runs.

``targets`` is the table of words. A word becomes a ``Flow`` (the folder, its settings, what make
was given), ``asked`` reads RUN_ARGS, ``work`` finds the values of every benchmark, scenario and
configuration in the registry of ``nvidia_mlperf.flow``, and the functions of the words make ``cm``
lines of them. Nothing of the engine is imported: ``flow.FlowRunner`` is what runs those lines.
"""
