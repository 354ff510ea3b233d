"""The words of NVIDIA's ``make`` lines, from the line to the runs.

``targets`` is the table of words. A word becomes a ``Flow`` (the folder, its settings, what make
was given), ``run_arguments`` reads RUN_ARGS, ``work`` finds the values of all benchmarks, scenarios
and configurations in the registry of ``nvidia_mlperf.flow``, and the functions of the words make
``cm`` lines of them. Nothing of the engine is imported: ``flow.FlowRunner`` runs those lines.
"""
