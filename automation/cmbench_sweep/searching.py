"""Points chosen one after the other, by the results of earlier ones, with Optuna.

The space is that of the grid. Outcomes that exist are added first and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from cmbench_sweep.points import groups
from cmbench_sweep.report import MeasuredPoint, feasible_points, report
from cmbench_sweep.values import HIGHER, MEASURED, PointOutcome, Sweep, SweepPoint

Measure = Callable[[SweepPoint], PointOutcome]
_ASKS = 20
"""For each point that may be tried, Optuna is asked so often at most: it repeats itself."""


def search(
    sweep: Sweep,
    points: Sequence[SweepPoint],
    outcomes: Mapping[str, PointOutcome],
    measure: Measure,
) -> list[SweepPoint]:
    """Return the points that were tried, the known ones among them, in the order of the grid.

    ``measure`` measures a point and says what came out. Raises ``extra-missing``, ``needs-input``
    where the sweep has no objective.
    """
    study = _Search(sweep, points, outcomes)
    while study.may_try():
        point = study.ask()
        if point is not None:
            outcome = measure(point)
            if not outcome.done:
                # The time is used up.
                break
            study.tell(point, outcome)
    return study.tried


class _Search:
    """One study of Optuna over the points of a grid."""

    def __init__(
        self, sweep: Sweep, points: Sequence[SweepPoint], outcomes: Mapping[str, PointOutcome]
    ) -> None:
        optuna = _optuna()
        if not sweep.objectives:
            raise Error(
                "needs-input",
                "a search needs an objective",
                hint="add to the sweep: objectives: {throughput: max}",
            )
        self._sweep, self._points, self._optuna = sweep, points, optuna
        self._outcomes = {key: outcome for key, outcome in outcomes.items() if outcome.done}
        self._by_place = {self._place(point.values): point for point in points}
        self._axes = self._distributions()
        ways = ["maximize" if way == HIGHER else "minimize" for way in sweep.objectives.values()]
        sampler = optuna.samplers.TPESampler(seed=sweep.search.seed, multivariate=True)
        self._study = optuna.create_study(directions=ways, sampler=sampler)
        self._trial: Any = None
        self._tries = 0
        for point in points:
            if point.key in self._outcomes:
                self._add(point, self._outcomes[point.key])

    def _distributions(self) -> dict[str, Any]:
        """Return the value numbers that occur on every independent axis."""
        distributions = {}
        for at, group in enumerate(groups(self._sweep)):
            numbers = sorted({position[at] for position in self._by_place})
            distributions[",".join(group)] = self._optuna.distributions.CategoricalDistribution(
                numbers
            )
        return distributions

    def _place(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the position of a point in the grid: its value numbers on the independent axes."""
        return tuple(
            next(
                number
                for number, row in enumerate(
                    zip(*(self._sweep.axes[n] for n in group), strict=True)
                )
                # 1.1 and 1.10 are two values.
                if [*map(str, row)] == [str(values[n]) for n in group]
            )
            for group in groups(self._sweep)
        )

    def may_try(self) -> bool:
        """Return whether a further point may be tried."""
        left = len(self._points) - len(self._outcomes)
        tries = self._sweep.search.points
        return left > 0 and len(self._outcomes) < tries and self._tries < _ASKS * tries

    def ask(self) -> SweepPoint | None:
        """Return an untried point; ``None`` if Optuna names one that was tried or is left out."""
        self._tries += 1
        self._trial = self._study.ask(self._axes)
        point = self._by_place.get(tuple(self._trial.params[name] for name in self._axes))
        if point is not None and point.key not in self._outcomes:
            return point
        if point is None:
            self._fail()
        else:
            self.tell(point, self._outcomes[point.key])
        return None

    def tell(self, point: SweepPoint, outcome: PointOutcome) -> None:
        """Let Optuna know what a point has given."""
        self._outcomes[point.key] = outcome
        values = _values(self._sweep, outcome)
        if values is None:
            self._fail()
            return
        for name, value in self._broken(point).items():
            self._trial.set_constraint(name, value)
        self._study.tell(self._trial, values)

    def _fail(self) -> None:
        self._study.tell(self._trial, state=self._optuna.trial.TrialState.FAIL)

    def _add(self, point: SweepPoint, outcome: PointOutcome) -> None:
        values = _values(self._sweep, outcome)
        if values is not None:
            params = dict(zip(self._axes, self._place(point.values), strict=True))
            broken = self._broken(point)
            made = self._optuna.trial.create_trial(
                params=params, distributions=self._axes, values=values, constraints=broken
            )
            self._study.add_trial(made)

    def _broken(self, point: SweepPoint) -> dict[str, float]:
        """For Optuna: above zero where a point does not fulfil the constraints."""
        if not self._sweep.constraints:
            return {}
        fulfils: list[MeasuredPoint] = feasible_points(report(self._sweep, [point], self._outcomes))
        return {"constraints": 0.0 if fulfils else 1.0}

    @property
    def tried(self) -> list[SweepPoint]:
        """The points of which something is known."""
        return [point for point in self._points if point.key in self._outcomes]


def _values(sweep: Sweep, outcome: PointOutcome) -> list[float] | None:
    figures = [outcome.figure(name) for name in sweep.objectives]
    values = [value for value in figures if value is not None]
    return values if outcome.status == MEASURED and len(values) == len(figures) else None


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        from cmbench.lib.installation import install_command

        raise Error(
            "extra-missing",
            "a search with Optuna needs Optuna, which is not installed",
            hint=f"`{install_command('search')}`\nor write search: {{method: random, points: N}}",
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
