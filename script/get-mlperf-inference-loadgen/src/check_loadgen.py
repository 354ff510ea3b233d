"""Print the facts of this Python's LoadGen: its path, missing names, and the seeds of its round.

Usage: check_loadgen.py NAME... prints one JSON object; the names are the required ones.
"""

from __future__ import annotations

import json
import sys
import tempfile


def main(names: list[str]) -> int:
    """Print as JSON where LoadGen lies, which of ``names`` it lacks, and its seed of samples."""
    import mlperf_loadgen

    settings = mlperf_loadgen.TestSettings()
    # An empty file: LoadGen then reads the configuration compiled into it.
    with tempfile.NamedTemporaryFile(suffix=".conf") as empty:
        status = settings.FromConfig(empty.name, "resnet50", "Offline")
    facts = {
        "path": mlperf_loadgen.__file__,
        "missing": [name for name in names if not hasattr(mlperf_loadgen, name)],
        "status": int(status),
        "qsl_seed": str(settings.qsl_rng_seed),
    }
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
