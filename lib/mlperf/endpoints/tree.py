"""The tree of an Endpoints submission, out of runs of the reference client and a description.

``ORG/ID/`` has ``src/IMPLEMENTATION/README.md``, ``docs/`` and for every point
``results/SYSTEM/MODEL/rN/`` (submission rules 8.1). The client's files are copied as they are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem, bad_value
from mlperf.client_run import ACCURACY, CONFIG, SUMMARY, ClientRun

from .plan import CurvePlan
from .rules import AGENTIC, DEDICATED, ELECTED

RESULTS, SOURCES, DOCUMENTS = "results", "src", "docs"
POINT, SYSTEM, POWER, README = "point.yaml", "system_desc.json", "system_power.json", "README.md"
DISCLOSED = (
    "model_precision",
    "link_to_model",
    "dataset_name",
    "dataset_type",
    "dataset_link",
)
"""What a person has to say of every point (8.3), beside what the runs say."""


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What a person says of a submission, out of one YAML file.

    ``points`` has what every ``point.yaml`` says, ``system`` is ``system_desc.json`` (8.2),
    ``power`` is ``system_power.json`` (rules, appendix E) or empty.
    """

    organization: str
    submission: str
    implementation: str
    points: Mapping[str, Any]
    system: Mapping[str, Any]
    power: Mapping[str, Any]


TEMPLATE = """\
# What the runs cannot say of an MLPerf Endpoints submission. Lines in <> are to be filled in.
organization: <name of the submitting organization, as a folder>
submission: <name of this submission, as a folder>
implementation: <folder with your sources and a README.md>
points:
  model_precision: <lowest precision of the weights, such as FP8>
  link_to_model: <address>
  dataset_name: <name>
  dataset_type: Performance
  dataset_link: <address>
  # What was done before a measurement began (6.3.3).
  warmup:
    {duration_s: 0, requests_issued: 0, requests_completed: 0, data_source: none, concurrency: 0}
system:
  system_name: <name>
  shortened_system_name: <at most 20 characters>
  # Available needs availability_url, Preview target_availability_date (YYYY-MM-DD); or RDI.
  system_availability_status: <Available, Preview or RDI>
  system_size: <such as 1 node>
  system_node_ensemble_count: 1
  system_node_ensemble_total: 1
  node_types:
  - system_node_ensemble_id: 1
    number_of_nodes: 1
    host_processor_model_name: <name>
    host_processors_per_node: <number>
    host_processor_core_count: <number>
    host_memory_capacity: <such as 1 TB>
    host_memory_configuration: <such as 16 x 64 GB>
    host_network_card_count: <such as 2x 100 GbE>
    accelerator_info: [{accelerator_model_name: <name>, accelerators_per_node: <number>}]
    cooling: <air or liquid>
    driver: <version>
    operating_system: <name and version>
    filesystem: <name>
# Needed in the Standardized division: the power that the system is built to draw, with its source.
power:
  system_desc_id: <name of the system>
  cooling: <air or liquid>
  node_sets:
  - node_set_id: 1
    system_node_ensemble_id: 1
    nodes_provisioned: 1
    power_method: published_system
    published_power: {value_w: <watts>, source_type: vendor_spec, source: <address>}
  scale_out: {present: false}
"""


def read_disclosure(path: Path) -> Disclosure:
    """Return what a person says; raise Problem for a file that is none or not filled in."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise bad_value(f"{path}: {' '.join(str(error).split())[:200]}", TEMPLATE_HINT) from error
    if not isinstance(document, Mapping):
        raise bad_value(f"{path} is no mapping", TEMPLATE_HINT)
    _require_filled(document, path)
    names = ("organization", "submission", "implementation")
    try:
        folders = [_folder_name(document[name]) for name in names]
        parts = [dict(document.get(name) or {}) for name in ("points", "system", "power")]
    except (KeyError, TypeError, ValueError) as error:
        raise bad_value(f"{path} has no {error}", TEMPLATE_HINT) from error
    missing = [name for name in DISCLOSED if not parts[0].get(name)]
    if missing:
        raise bad_value(f"{path}: points has no {', '.join(missing)}", TEMPLATE_HINT)
    organization, submission, implementation = folders
    points, system, power = parts
    return Disclosure(organization, submission, implementation, points, system, power)


TEMPLATE_HINT = (
    "write a file to fill in:\n"
    "`cm run script --tags=generate,mlperf,endpoints-submission,_template --disclosure=FILE`"
)


def _folder_name(value: object) -> str:
    name = str(value)
    if not name or name.startswith(".") or "/" in name:
        raise bad_value(f'"{name}" cannot be a folder', "use letters, digits, - and _")
    return name


def _require_filled(value: object, path: Path, where: str = "") -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_filled(item, path, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            _require_filled(item, path, where)
    elif isinstance(value, str) and value.startswith("<") and value.endswith(">"):
        raise bad_value(f"{path}: {where} is still {value}", "fill it in")


def build(
    target: Path,
    plan: CurvePlan,
    runs: Mapping[str, ClientRun],
    disclosure: Disclosure,
    sources: Sequence[Path],
    documents: Sequence[Path] = (),
) -> Path:
    """Write the tree below ``target``, which must not have it; return the folder of the submission.

    ``runs`` are by the name of their point; ``sources`` are copied into the implementation.
    """
    root = target / disclosure.organization / disclosure.submission
    if root.exists():
        hint = "remove it, or choose another name for the submission"
        raise Problem("bad-value", f"{root} is there already", hint=hint)
    implementation = root / SOURCES / disclosure.implementation
    _copy(sources, implementation)
    _copy(documents, root / DOCUMENTS)
    system = root / RESULTS / _slug(str(disclosure.system.get("system_name") or "system"))
    for point in plan.points:
        run = runs.get(point.name)
        if run is None:
            continue
        offline = DEDICATED if point.offline else ELECTED if point.elected else ""
        folder = system / plan.model.name / point.name
        folder.mkdir(parents=True)
        _copy_run(run, folder)
        _write_point(folder, _point(plan, run, point.concurrency, offline, disclosure))
        _write_json(folder / SYSTEM, _described(plan, disclosure))
    if disclosure.power:
        _write_json(system / POWER, disclosure.power)
    return root


def _copy(paths: Sequence[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, folder, dirs_exist_ok=True, ignore=_IGNORED)
        else:
            shutil.copy(path, folder / path.name)


_IGNORED = shutil.ignore_patterns(".git", "__pycache__")


def _copy_run(run: ClientRun, folder: Path) -> None:
    files = ((run.folder / CONFIG, CONFIG), (run.summary_file, SUMMARY))
    for source, name in (*files, (run.accuracy_file, ACCURACY)):
        if source is not None:
            shutil.copyfile(source, folder / name)


def _point(
    plan: CurvePlan, run: ClientRun, concurrency: int, offline: str, disclosure: Disclosure
) -> dict[str, Any]:
    """Return ``point.yaml`` (8.3): what the rules, the run and the person say."""
    seeds = {name: run.seed(name) for name in plan.seeds.seeds}
    region = {} if offline == DEDICATED else {"region": plan.regions.label(concurrency)}
    pattern = run.load_pattern or (AGENTIC if plan.model.agentic else "")
    return {
        "concurrency": concurrency,
        **region,
        **({"offline": offline} if offline else {}),
        "division": plan.division,
        "max_supported_concurrency": plan.regions.c_max,
        "model_name": plan.model.name,
        "dataset": plan.model.dataset,
        "seed_set": plan.seeds.id,
        "target_cohort": plan.cohort,
        "shared_src": f"{SOURCES}/{disclosure.implementation}",
        "shared_docs": DOCUMENTS,
        "runtime_settings": {
            "load_pattern": pattern,
            "min_duration_ms": run.least_milliseconds,
            "runtime": seeds,
        },
        **disclosure.points,
    }


def _described(plan: CurvePlan, disclosure: Disclosure) -> dict[str, Any]:
    return {
        "division": plan.division,
        "max_supported_concurrency": plan.regions.c_max,
        **disclosure.system,
    }


def _write_point(folder: Path, document: Mapping[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump(dict(document), sort_keys=False)
    (folder / POINT).write_text(text, encoding="utf-8")


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name).strip("_") or "system"
