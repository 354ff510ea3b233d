"""README.md of a scenario: everything that another person needs to repeat its runs."""

from __future__ import annotations

from collections.abc import Iterator

from ..settings import Provenance, SessionSettings
from ..wording import cores_in_words, figures
from .results import Results, ScenarioResult

NO_COMMAND = "(not started by a command line)"


def text(results: Results, result: ScenarioResult, settings: SessionSettings) -> str:
    """The file of one scenario, in Markdown."""
    return "\n".join(_lines(results, result, settings)) + "\n"


def _lines(results: Results, result: ScenarioResult, settings: SessionSettings) -> Iterator[str]:
    form = f" ({results.form} form)" if results.form else ""
    yield f"# {results.benchmark}{form}, {result.scenario}"
    yield ""
    yield (
        f"MLPerf inference round v{results.round}, {results.division} division, {results.style} "
        f"runs, system `{results.sut}`."
    )
    yield from _result(result)
    yield from _commands(result, settings.provenance)
    yield from _hashes(results, settings)
    yield from _parts(settings.provenance)
    yield from _machine(results)


def _result(result: ScenarioResult) -> Iterator[str]:
    yield ""
    yield "## Result"
    yield ""
    run = result.performance_run
    if run is not None:
        value = "no figure" if run.value is None else f"{figures(run.value)} {run.unit}"
        yield f"- performance: {value} ({run.meaning}), {run.validity}"
    if result.accuracy is not None:
        verdict = "reached" if result.accuracy_reached else "not reached"
        yield (
            f"- accuracy: {result.accuracy:.4f} {result.accuracy_unit} "
            f"(target {result.accuracy_target:.4f}, {verdict})"
        )
    for test in result.compliance:
        yield f"- {test.test}: {'passed' if test.passed else 'failed'}"
    if run is None and result.accuracy is None:
        yield "- nothing was measured yet"


def _commands(result: ScenarioResult, given: Provenance) -> Iterator[str]:
    """The exact command of every run, each once."""
    yield ""
    yield "## Commands"
    yield ""
    made: dict[str, list[str]] = {}
    for name, around in result.runs():
        made.setdefault(around.command or NO_COMMAND, []).append(f"{name} {around.measured_at}")
    for command, names in made.items():
        yield f"{', '.join(names)}:"
        yield ""
        yield "```bash"
        yield command
        yield "```"
        yield ""
    repository = given.repository or "the repository of the scripts"
    revision = given.revision or "unknown (not under git)"
    yield f"Scripts: {repository}, revision `{revision}`."
    if given.repository and given.revision:
        yield ""
        yield "```bash"
        yield f"cm pull repo --url={given.repository} --checkout={given.revision.partition('+')[0]}"
        yield "```"


def _hashes(results: Results, settings: SessionSettings) -> Iterator[str]:
    yield ""
    yield "## Model and data"
    yield ""
    yield "| what | name | SHA-256 |"
    yield "| --- | --- | --- |"
    for graph in settings.model.graphs():
        name = settings.model.name if graph.name == "main" else graph.name
        yield f"| model | {name} ({settings.model.precision}) | `{graph.sha256}` |"
    data = results.dataset
    yield (
        f"| data set (its `dataset.json`, with the hashes of its files) | {data['name']}, "
        f"{data['count']} samples | `{data['sha256']}` |"
    )


def _parts(given: Provenance) -> Iterator[str]:
    if not given.steps:
        return
    yield ""
    yield "## Dependencies"
    yield ""
    yield "The command above gets these by itself; each alone:"
    yield ""
    yield "```bash"
    yield from given.steps
    yield "```"


def _machine(results: Results) -> Iterator[str]:
    host = results.host
    yield ""
    yield "## Machine"
    yield ""
    memory = f"{host.memory_bytes / 2**30:.1f} GiB"
    yield f"- {host.cpu_model}, {cores_in_words(host.cores_usable)} usable, {memory} of memory"
    yield f"- {host.system}, Python {host.python}"
    for name, version in results.versions.items():
        yield f"- {name} {version}"
