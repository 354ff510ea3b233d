"""The packages of this script and of the harness on the path, and genuine short results."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmark_lab
import submission_lab  # noqa: F401  (puts the packages on the path)

SCENARIOS = ["SingleStream", "Offline"]


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of real LoadGen runs of a third of a second."""
    from mlperf.harness import records
    from mlperf.harness.session import quiet, session
    from mlperf.harness.settings import SessionSettings

    folder = tmp_path_factory.mktemp("results")
    changes = {
        "scenarios": SCENARIOS,
        "modes": ["performance", "accuracy"],
        "division": "open",
        "category": "edge",
        "sut_dir": str(folder / "sut"),
    }
    settings = records.decode(SessionSettings, benchmark_lab.settings(folder, **changes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quiet, "look", lambda: None)
        session.MeasurementSession(settings).run()
    return folder
