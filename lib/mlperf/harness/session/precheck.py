"""What would make a run invalid whatever came out of it: found before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.problems import Hint
from mlperf.catalog import MINIMUM_DURATION_MS, OFFLINE, BenchmarkSpec, rounds

from ..errors import HarnessError
from ..jobs import Probe
from ..records import read_json
from ..settings import PERFORMANCE, SessionSettings

AUDIT = "audit.config"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle to a valid run, and its remedy."""

    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.text} ({Hint(self.advice)})"


def check(
    settings: SessionSettings, spec: BenchmarkSpec | None, probe: Probe, root: Path
) -> tuple[str, ...]:
    """Raise HarnessError for what cannot become valid; return what only keeps it from counting.

    ``root`` is the folder of the results that would be written.
    """
    problems = [*_round(settings, probe), *_audit(root, settings), *_duration(settings)]
    problems += _scenarios(settings, spec) if spec else []
    counts = list(_counts(settings, spec, probe)) if spec else []
    if settings.style == "valid" and not settings.form:
        problems += counts
    if problems:
        raise HarnessError(
            "this could not become a valid result: "
            + "; ".join(obstacle.text for obstacle in problems),
            "; ".join(obstacle.advice for obstacle in problems),
        )
    missing = list(_retired(settings, spec)) if spec else []
    notes = [str(obstacle) for obstacle in counts] if settings.style == "valid" else []
    if settings.overrides.seed is not None:
        notes.append(f"the seeds are those of a work unit, not of round {settings.round}")
    return (*notes, *missing, *tokenizer_notes(settings))


def tokenizer_notes(settings: SessionSettings) -> Iterator[str]:
    """Say which side names no tokenizer; where both do, the benchmark has compared them."""
    facts = read_json(Path(settings.dataset) / "dataset.json")
    sides = {"data set": facts, "model": settings.model.options}
    silent = [name for name, side in sides.items() if not side.get("tokenizer")]
    if len(silent) == 1:
        yield (
            f"the {silent[0]} does not say which tokenizer it has: whether it fits was only seen "
            "by the number of tokens"
        )


def _round(settings: SessionSettings, probe: Probe) -> Iterator[Obstacle]:
    seeds = rounds.qsl_seeds()
    wanted = seeds.get(settings.round)
    if wanted is None:
        known = ", ".join(seeds)
        raise HarnessError(
            f"there is no LoadGen for round {settings.round}, only for: {known}",
            "choose one of these rounds by its variation, such as _r6.1",
        )
    if probe.qsl_seed != wanted:
        is_of = next((name for name, seed in seeds.items() if seed == probe.qsl_seed), "no round")
        yield Obstacle(
            f"LoadGen {probe.versions.get('loadgen', '')} carries the seeds of {is_of}, round "
            f"{settings.round} fixes others",
            "get the right one: `cm run script "
            f"--tags=get,mlperf,inference,loadgen,_r{settings.round}`",
        )


def _audit(root: Path, settings: SessionSettings) -> Iterator[Obstacle]:
    places = [
        Path(settings.results_dir),
        root,
        *(root / name.lower() for name in settings.scenarios),
    ]
    for place in dict.fromkeys(places):
        if (place / AUDIT).exists():
            path = place / AUDIT
            yield Obstacle(f"{path} is left over from a compliance test", f"delete {path}")


def _duration(settings: SessionSettings) -> Iterator[Obstacle]:
    least, duration_ms = MINIMUM_DURATION_MS, settings.overrides.min_duration
    if (
        settings.style == "valid"
        and duration_ms is not None
        and duration_ms < least
        and not settings.form
    ):
        text = f"--min_duration={duration_ms} is below the {least} ms of the rules"
        yield Obstacle(text, "leave out --min_duration")


def _scenarios(settings: SessionSettings, spec: BenchmarkSpec) -> Iterator[Obstacle]:
    """Scenarios that no round has ever had."""
    known = spec.all_scenarios()
    for scenario in settings.scenarios:
        if scenario not in known:
            yield Obstacle(f"{spec.name} has no {scenario}", f"choose of {', '.join(known)}")


def _counts(settings: SessionSettings, spec: BenchmarkSpec, probe: Probe) -> Iterator[Obstacle]:
    """Numbers of samples below those of the rules, where performance is measured."""
    if PERFORMANCE not in settings.modes:
        return
    overrides = settings.overrides
    required = spec.loaded_samples
    loaded = min(overrides.performance_sample_count or required, probe.sample_count)
    if loaded < required:
        yield Obstacle(
            f"{loaded} samples would be loaded, round {settings.round} asks for {required}",
            f"use the whole data set, and no --performance_sample_count below {required}",
        )
    if OFFLINE in settings.scenarios:
        for name, count in (
            ("--min_query_count", overrides.min_query_count),
            ("--max_query_count", overrides.max_query_count),
        ):
            if count is not None and count < spec.offline_minimum:
                yield Obstacle(
                    f"{name}={count} leaves Offline below the {spec.offline_minimum} samples "
                    "of the rules",
                    f"leave out {name}",
                )


def _retired(settings: SessionSettings, spec: BenchmarkSpec) -> Iterator[str]:
    for scenario in settings.scenarios:
        if scenario in spec.all_scenarios() and not spec.in_round(scenario, settings.round):
            yield (
                f"{spec.name} {scenario} is not part of round {settings.round}; "
                f"its last round was {spec.last_round(scenario)}"
            )
