"""Power measurements: their files and figures.

Whether the meter meets the rules is judged by the Power working group's own program, which is a
part of the official checker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlperf.catalog import rounds
from mlperf.harness.measuring.relations import POWER_OF_RANGING

from .. import counted, truncate
from ..build import LOGS, METER_FILES, SAMPLES
from ..counted import during, lasted
from ..files import text
from ..layouts import POWER, RANGING, SYSTEMS, ScenarioCell
from .base import (
    CHECKER,
    FIRST_FILLED,
    RULES,
    Finding,
    Rule,
    SubmitterSite,
    missing,
    number,
    read_detail_log,
)
from .power_session import session

FILES = Rule("power.files", "the files of a power measurement and no others", CHECKER)
METER = Rule(
    "power.meter", "the analyzer's table and the power settings", CHECKER, first=FIRST_FILLED
)
FIGURE = Rule("power.samples", "readings of the power while the run lasted", RULES)
CONSISTENT = Rule("power.consistent", "figures that fit each other", RULES, first=FIRST_FILLED)
NAMEPLATE = Rule("power.nameplate", "what the power supplies are made for", CHECKER)

FOLDERS = {
    POWER: ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"),
    RANGING: (*LOGS, SAMPLES),
}
AGAIN = "measure again with the power meter"
# From this round on the checker requires the capacity of the power supplies.
FIRST_WITH_NAMEPLATE = "6.1"
CAPACITY = "system_power_capacity"
MEND = f"write {CAPACITY}: WATTS into a file, and generate again with --system_file=FILE"


def measurements(site: SubmitterSite) -> Iterator[Finding]:
    """Scenarios with a folder of power logs; an empty folder counts as a measurement too."""
    measured = [cell for cell in site.cells if cell.powered]
    for cell in measured:
        yield from _measurement(site, cell)
    if rounds.since(site.layout.round, FIRST_WITH_NAMEPLATE):
        for system in sorted({cell.system for cell in measured}):
            plate = site.root / SYSTEMS / f"{system}_power.yaml"
            if not plate.is_file() and not site.systems.get(system, {}).get(CAPACITY):
                fault = f"neither this file nor {CAPACITY} in the description of the system"
                yield NAMEPLATE.broken(site.where(plate), fault, MEND)


def _measurement(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """One measurement: its files, its readings, and what they say of each other."""
    yield from _files(site, cell)
    for folder in (cell.run, cell.results / RANGING):
        yield from _readings(site, folder)
    yield from _copied(site, cell)
    yield from _ranged(site, cell)
    yield from _supplied(site, cell)
    yield from _meter(site, cell)
    yield from session(site, cell)


def _files(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    for name in missing(cell.run, (SAMPLES,)):
        yield FILES.broken(site.where(cell.run / name), "missing or empty", AGAIN)
    for name, wanted in FOLDERS.items():
        folder = cell.results / name
        for lost in missing(folder, wanted):
            yield FILES.broken(site.where(folder / lost), "missing or empty", AGAIN)
        for more in site.unknown_files(folder, (*wanted, truncate.LOG)):
            where = site.where(folder / more)
            yield FILES.broken(where, "a file that does not belong here", f"rm {where}")


def _readings(site: SubmitterSite, folder: Path) -> Iterator[Finding]:
    """Check that the meter has readings between the times in the log."""
    readings = text(folder / SAMPLES)
    if not readings:
        return
    span = lasted(read_detail_log(folder))
    if span is None:
        where = site.where(folder / LOGS[0])
        yield FIGURE.broken(where, "it does not hold power_begin and power_end", AGAIN)
        return
    if not any(watts > 0 for watts in during(readings, span)):
        fault = f"no reading above 0 W between {span[0]:%H:%M:%S} and {span[1]:%H:%M:%S}"
        yield FIGURE.broken(site.where(folder / SAMPLES), fault, AGAIN)


def _copied(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """Check that the ranging run is another one than the run itself."""
    details = [folder / LOGS[0] for folder in (cell.run, cell.results / RANGING)]
    logs = {text(path) for path in details}
    fault = "it is the log of the run itself"
    yield from CONSISTENT.unless(
        len(logs) == 2 or logs == {""}, site.where(details[1]), fault, AGAIN
    )


def _ranged(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """Check that a run took about as much power as its ranging run."""
    run, ranging = (
        counted.power(f, read_detail_log(f)) for f in (cell.run, cell.results / RANGING)
    )
    if run is None or ranging is None:
        return
    low, high = POWER_OF_RANGING
    fault = f"a mean of {run.watts:g} W, in the ranging run {ranging.watts:g} W"
    kept = low <= run.watts / ranging.watts <= high
    yield from CONSISTENT.unless(kept, site.where(cell.run / SAMPLES), fault, AGAIN)


def _supplied(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """Check that a run took no more than its system's power supplies give."""
    capacity = number(site.systems.get(cell.system, {}).get(CAPACITY))
    power = counted.power(cell.run, read_detail_log(cell.run))
    if capacity and power is not None and power.watts > capacity:
        fault = f"a mean of {power.watts:g} W, {CAPACITY} is {capacity:g}"
        yield CONSISTENT.broken(site.where(cell.run / SAMPLES), fault, AGAIN)


def _meter(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """Files that may also lie above the scenario, where several have them in common."""
    place = cell.measurements
    folders = (place, *place.parents[:3])
    for pattern in METER_FILES:
        paths = [path for folder in folders for path in sorted(folder.glob(pattern))]
        if not any(path.stat().st_size for path in paths):
            where = site.where(place / pattern)
            yield METER.broken(where, "missing or empty", "put it beside user.conf of the runs")
