"""One short Offline run of the real LoadGen whose system answers after a fixed time.

An accuracy run precedes it, with the logs in a folder ``accuracy`` of their own.
``python loadgen_once.py FOLDER SECONDS ROUND|SEED``: the seeds are those of the round, or follow
from a seed of a work unit.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import mlperf_loadgen as lg

SAMPLES = 10833


def main(folder: Path, seconds: float, seeds: dict[str, int]) -> None:
    measure(folder / "accuracy", 0.0, seeds, lg.TestMode.AccuracyOnly)
    measure(folder, seconds, seeds, lg.TestMode.PerformanceOnly)


def measure(folder: Path, seconds: float, seeds: dict[str, int], mode: lg.TestMode) -> None:
    folder.mkdir(parents=True, exist_ok=True)

    def issue(queries: list[lg.QuerySample]) -> None:
        time.sleep(seconds)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(q.id, 0, 0) for q in queries])

    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
    settings = lg.TestSettings()
    settings.scenario = lg.TestScenario.Offline
    settings.mode = mode
    settings.offline_expected_qps = 1000
    settings.min_duration_ms = 100
    settings.min_query_count = 1
    for name, seed in seeds.items():
        setattr(settings, f"{name}_rng_seed", seed)
    logs = lg.LogSettings()
    logs.enable_trace = False
    logs.log_output.outdir = str(folder)
    logs.log_output.copy_summary_to_stdout = False
    lg.StartTestWithLogSettings(sut, qsl, settings, logs)
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


if __name__ == "__main__":
    from mlperf.catalog import rounds

    word = sys.argv[3]
    seeds = rounds.own_seeds(int(word)) if word.isdigit() else rounds.seeds(word)
    main(Path(sys.argv[1]), float(sys.argv[2]), seeds)
