"""Descriptions of sites: a file says what flags would say, so that a command only names it.

A site is a system with its scheduler and its partitions; ``docs/how-to/sites.md`` has the keys, and
``schema/site.schema.json`` is their JSON Schema for editors.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.errors import Error, did_you_mean
from cmbench.format.meta import load_yaml
from cmbench.lib.ssh import check_name
from cmbench_sweep.execution_flags import OF_SBATCH, lines_of
from cmbench_sweep.job_containers import RUNTIMES
from cmbench_sweep.reading import Faults
from cmbench_sweep.slurm import is_reserved
from cmbench_sweep.spelling import loader

SCHEDULERS = ("local", "slurm", "ssh", "ray")
KEYS: Mapping[str, tuple[str, ...]] = {
    "description": SCHEDULERS,
    "environment": SCHEDULERS,
    "labels": ("local", "ssh"),
    "options": ("slurm",),
    "throttle": ("slurm",),
    "share_nodes": ("slurm",),
    "modules": ("slurm", "ssh"),
    "setup": ("slurm", "ssh"),
    "container": ("slurm",),
    "folder": ("slurm", "ssh", "ray"),
    "hosts": ("ssh",),
    "keep": ("ssh",),
    "wheels": ("ssh",),
    "patience": ("ssh",),
    "address": ("ray",),
}
"""The keys of a site and of a partition, with the schedulers that they are for."""
OF_SITE = ("name", "scheduler", "partitions")
"""The keys that only a site has."""
_ENDINGS = (".yaml", ".yml")
_NAME = re.compile(r"\w[\w.+-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_OPTION = re.compile(r"[a-z][a-z-]*")
_LISTS = ("modules", "setup", "labels")
_MAPPINGS = ("options", "environment")
_Parsed = tuple[Any, Mapping[tuple[str, ...], int]]


@dataclass(frozen=True, slots=True)
class SiteSystem:
    """What a command uses that names ``SITE`` or ``SITE:PARTITION``.

    ``flags`` are those of the command that the description stands for, and ``environment`` are the
    variables of the runs.
    """

    name: str
    scheduler: str
    description: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteDescription:
    """A file with its systems, by the names of their partitions; one without is called ``""``."""

    name: str
    path: str
    description: str
    systems: Mapping[str, SiteSystem]


def site_folders(workspace: api.Workspace) -> list[str]:
    """Return the folders in which sites are looked for by their names, the first one first."""
    own = os.environ.get("CMBENCH_SITES", "").split(os.pathsep)
    homes = [os.path.join(workspace.root, "sites")]
    shared = (os.path.join(repository.path, "site") for repository in workspace.repositories)
    return [*filter(None, own), *homes, *shared]


def site_paths(workspace: api.Workspace) -> dict[str, str]:
    """Return the files of all sites that can be named, by their names."""
    paths: dict[str, str] = {}
    for folder in site_folders(workspace):
        for path in sorted(Path(folder).glob("*.y*ml")):
            if path.suffix in _ENDINGS:
                paths.setdefault(path.stem, str(path))
    return paths


def with_site(
    workspace: api.Workspace, flags: Mapping[str, Any]
) -> tuple[Mapping[str, Any], SiteSystem | None]:
    """Return the flags with those of the system that ``--site`` names below them.

    Words of ``--sbatch`` come after those of the site; another flag takes its place. Raises
    ``bad-value``, ``site-not-found`` and ``bad-site``.
    """
    if "site" not in flags:
        return flags, None
    if flags["site"] in (True, ""):
        raise Error("bad-value", "--site needs a value", hint="`cm show site` lists the sites")
    system = find_system(workspace, str(flags["site"]))
    on = str(flags.get("on") or flags.get("executor") or system.scheduler)
    if on != system.scheduler:
        raise Error(
            "bad-value",
            f"--on={on}: the site {system.name} is used by {system.scheduler}",
            hint="leave out one of --on and --site",
        )
    return _over(flags, system.flags), system


def _over(flags: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of a command over those of a system, of which one image at most is left."""
    replaced = {"site", "executor"}
    if any(flags.get(name) for name in RUNTIMES):
        below = {name: value for name, value in below.items() if name not in RUNTIMES}
    joined = {n: v for n, v in {**below, **flags}.items() if n not in replaced}
    joined["sbatch"] = [*lines_of(below.get("sbatch")), *lines_of(flags.get("sbatch"))]
    return {name: value for name, value in joined.items() if not _is_off(name, value)}


def _is_off(name: str, value: Any) -> bool:
    """Return whether a flag takes back what the site says."""
    off = value is False or str(value).lower() in ("no", "false", "off")
    return value == [] or (off and name in ("share_nodes", "keep"))


def find_system(workspace: api.Workspace, text: str) -> SiteSystem:
    """Return the system ``NAME``, ``NAME:PARTITION`` or ``FILE.yaml[:PARTITION]``.

    Without a partition it is the first one. Raises ``site-not-found`` and ``bad-site``.
    """
    where, partition = _split(text)
    site = find_site(workspace, where)
    if not partition:
        return next(iter(site.systems.values()))
    if partition not in site.systems:
        names = [name for name in site.systems if name]
        hint = did_you_mean(partition, names) or f"there are: {', '.join(names) or 'none'}"
        problem = f"the site {site.name} has no partition {partition}"
        raise Error("site-not-found", problem, hint=hint)
    return site.systems[partition]


def find_site(workspace: api.Workspace, text: str) -> SiteDescription:
    """Return the site of a name or of a file; raise ``site-not-found``, ``bad-site``."""
    if _is_file(text):
        return read_site(text)
    paths = site_paths(workspace)
    if text not in paths:
        folder = site_folders(workspace)[0]
        hint = did_you_mean(text, paths) or f"describe it in {os.path.join(folder, text)}.yaml"
        raise Error("site-not-found", f"there is no site {text}", hint=hint)
    return read_site(paths[text])


def _is_file(text: str) -> bool:
    return os.sep in text or text.endswith(_ENDINGS)


def _split(text: str) -> tuple[str, str]:
    """Return the site and the partition of what is typed."""
    where, colon, partition = text.rpartition(":")
    return (where, partition) if colon and os.sep not in partition else (text, "")


def read_site(path: str) -> SiteDescription:
    """Return the site of a file; raise ``bad-site`` with every fault and its line."""
    data, lines = _parsed(path)
    faults = SiteFaults(path, lines)
    fields = faults.mapping("", data)
    faults.known("", fields, (*OF_SITE, *KEYS))
    name = str(fields.get("name") or Path(path).stem)
    if not _NAME.fullmatch(name):
        faults.add("name", f"{name!r:.60} is not a name: up to 50 letters, digits, - _ + and .")
    scheduler = str(fields.get("scheduler", "local"))
    faults.known("scheduler", [scheduler], SCHEDULERS)
    own = {key: value for key, value in fields.items() if key in KEYS}
    _check(own, scheduler, (), faults)
    partitions = _partitions(fields, scheduler, faults)
    faults.refuse_site()
    folder = os.path.dirname(os.path.abspath(path))
    systems = {
        partition: _system(f"{name}:{partition}", scheduler, _joined(own, inner), folder)
        for partition, inner in partitions.items()
    }
    description = str(fields.get("description") or "")
    systems = systems or {"": _system(name, scheduler, own, folder)}
    return SiteDescription(name, path, description, systems)


def _partitions(
    fields: Mapping[str, Any], scheduler: str, faults: SiteFaults
) -> dict[str, Mapping[str, Any]]:
    """Return the partitions with their keys; those of Slurm are called as they are there."""
    partitions = {}
    for name, value in faults.mapping("partitions", fields.get("partitions")).items():
        if not _NAME.fullmatch(name):
            faults.add(
                "partitions", f"{name!r:.60} is not a name: letters, digits, - _ + and .", name
            )
        where = f"partitions.{name}"
        inner = faults.mapping(where, value)
        faults.known(where, inner, KEYS)
        _check(inner, scheduler, ("partitions", name), faults)
        options = inner.get("options") or {}
        if scheduler == "slurm" and isinstance(options, Mapping):
            inner = {**inner, "options": {"partition": name, **options}}
        partitions[name] = inner
    return partitions


def _joined(site: Mapping[str, Any], partition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a partition laid over those of its site; lists and mappings add up."""
    joined = {**site, **partition}
    for key in {*site} & {*partition}:
        if key in _LISTS:
            joined[key] = [*_texts(site[key]), *_texts(partition[key])]
        elif key in _MAPPINGS and isinstance(site[key], Mapping):
            joined[key] = {**site[key], **(partition[key] or {})}
    return joined


class SiteFaults(Faults):
    """Faults of the file of a site, with its name and their lines."""

    def __init__(self, path: str, lines: Mapping[tuple[str, ...], int]) -> None:
        super().__init__()
        self._path, self._at = path, lines

    def add(self, where: str, what: str, key: str = "") -> None:
        """Keep one at ``where``, names with dots between; ``key`` there has its line."""
        keys: tuple[str, ...] = (*(where.split(".") if where else ()), *([key] if key else ()))
        while keys and keys not in self._at:
            keys = keys[:-1]
        named = f"{where}: " if where else ""
        self.lines.append(f"{self._path}:{self._at.get(keys, 1)}: {named}{what}")

    def refuse_site(self) -> None:
        """Raise ``bad-site`` where there are any."""
        if self.lines:
            raise Error(
                "bad-site",
                self.lines[0],
                context=self.lines[1:40],
                hint="correct the file; docs/how-to/sites.md has its keys",
            )


def _parsed(path: str) -> _Parsed:
    """Return the data of a YAML file, and the lines of its keys; raise ``site-not-found``."""
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as problem:
        hint = "name a file, or a site that `cm show site` lists"
        raise Error("site-not-found", f"{path}: {problem.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise Error("bad-site", f"{path}:1: it is not UTF-8 text", hint="save it so") from None
    try:
        data = load_yaml(text, path, loader())
    except Error as problem:
        hint = "correct the file there; docs/how-to/sites.md has its keys"
        raise Error("bad-site", problem.message, hint=hint) from None
    node = yaml.compose(text, Loader=loader())
    return data, dict(_lines_of(node, ()))


def _lines_of(node: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the lines of the keys of mappings, three deep as a site is."""
    import yaml

    if not isinstance(node, yaml.MappingNode) or len(keys) > 3:
        return
    for key, value in node.value:
        path = (*keys, str(key.value))
        yield path, key.start_mark.line + 1
        yield from _lines_of(value, path)


def _check(
    fields: Mapping[str, Any], scheduler: str, keys: tuple[str, ...], faults: SiteFaults
) -> None:
    """Report keys of another scheduler, and values that do not fit their keys."""
    for key, value in fields.items():
        where = ".".join((*keys, key))
        if key in KEYS and scheduler in SCHEDULERS and scheduler not in KEYS[key]:
            fitting = " and ".join(KEYS[key])
            faults.add(where, f"it is for the scheduler {fitting}, and here it is {scheduler}")
        elif key in _CHECKS and value is not None:
            _CHECKS[key](where, value, faults)


def _check_text(where: str, value: Any, faults: Faults) -> None:
    if isinstance(value, bool | list | Mapping) or "\n" in str(value):
        faults.add(where, f"{value!r:.60} is not one line of text")


def _check_texts(where: str, value: Any, faults: Faults) -> None:
    for item in faults.items(where, value):
        _check_text(where, item, faults)


def _check_flag(where: str, value: Any, faults: Faults) -> None:
    if not isinstance(value, bool):
        faults.add(where, f"{value!r:.60} is neither true nor false")


def _check_count(where: str, value: Any, faults: Faults) -> None:
    faults.number(where, value, 1, whole=True)


def _check_environment(where: str, value: Any, faults: Faults) -> None:
    for name, item in faults.mapping(where, value).items():
        if not _VARIABLE.fullmatch(name):
            faults.add(where, f"{name!r:.60} is not the name of a variable", name)
        _check_text(f"{where}.{name}", item, faults)


def _check_options(where: str, value: Any, faults: Faults) -> None:
    for name, item in faults.mapping(where, value).items():
        spelled = name.replace("_", "-")
        if not _OPTION.fullmatch(spelled):
            faults.add(where, f"{name!r:.60} is not a long option of sbatch: write mem: 64G", name)
        elif is_reserved(f"--{spelled}"):
            faults.add(f"{where}.{name}", "the sweep sets it")
        elif item is not True:
            _check_text(f"{where}.{name}", item, faults)


def _check_container(where: str, value: Any, faults: Faults) -> None:
    fields = faults.mapping(where, value)
    faults.known(where, fields, ("runtime", "image"))
    faults.known(f"{where}.runtime", [fields.get("runtime")], RUNTIMES)
    if not isinstance(fields.get("image"), str):
        faults.add(where, "it has no image")


def _check_hosts(where: str, value: Any, faults: Faults) -> None:
    hosts = value if isinstance(value, Mapping) else dict.fromkeys(_texts(value))
    for name, labels in hosts.items():
        try:
            check_name(str(name))
        except Error as problem:
            faults.add(f"{where}.{name}", problem.message)
        _check_texts(f"{where}.{name}", labels, faults)


_CHECKS: Mapping[str, Callable[[str, Any, Faults], None]] = {
    **dict.fromkeys(("description", "folder", "wheels", "address"), _check_text),
    **dict.fromkeys(_LISTS, _check_texts),
    **dict.fromkeys(("share_nodes", "keep"), _check_flag),
    **dict.fromkeys(("throttle", "patience"), _check_count),
    "environment": _check_environment,
    "options": _check_options,
    "container": _check_container,
    "hosts": _check_hosts,
}


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _system(name: str, scheduler: str, fields: Mapping[str, Any], folder: str) -> SiteSystem:
    environment = {key: str(value) for key, value in (fields.get("environment") or {}).items()}
    flags = {"on": scheduler, **dict(_flags(scheduler, _with_paths(fields, folder)))}
    about = str(fields.get("description") or "")
    return SiteSystem(name, scheduler, about, flags, environment)


def _with_paths(fields: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the keys in which relative paths begin at the folder of the file."""
    values = {key: value for key, value in fields.items() if value not in (None, False, [], {})}
    if "wheels" in values:
        values["wheels"] = os.path.join(folder, str(values["wheels"]))
    image = values["container"]["image"] if "container" in values else ""
    if image.startswith("."):
        path = os.path.normpath(os.path.join(folder, image))
        values["container"] = {**values["container"], "image": path}
    return values


def _flags(scheduler: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the flags of the command that a system stands for."""
    yield from _options(fields.get("options", {}))
    names = {"address": "ray", "folder": "folder" if scheduler == "ssh" else "scratch"}
    names["container"] = fields["container"]["runtime"] if "container" in fields else ""
    for key, convert in _CONVERTERS.items():
        if key in fields:
            yield names.get(key, key), convert(fields[key])


def _joined_texts(value: Any) -> str:
    return ",".join(_texts(value))


def _hosts(hosts: Any) -> str:
    """Return machines as ``--hosts`` has them, with their labels."""
    labels = hosts if isinstance(hosts, Mapping) else dict.fromkeys(_texts(hosts))
    words = ("=".join(filter(None, (str(n), "+".join(_texts(v))))) for n, v in labels.items())
    return ",".join(words)


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("throttle", "patience", "address", "folder", "wheels"), str),
    **dict.fromkeys(("share_nodes", "keep"), bool),
    **dict.fromkeys(("modules", "setup"), _texts),
    "labels": _joined_texts,
    "hosts": _hosts,
    "container": lambda value: value["image"],
}


def _options(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options of ``sbatch``: those that have flags, and the words of all others."""
    words = []
    for name, value in options.items():
        if name.replace("-", "_") in OF_SBATCH:
            yield name.replace("-", "_"), str(value)
        elif value is not None:
            word = f"--{name.replace('_', '-')}"
            words.append(shlex.quote(word if value is True else f"{word}={value}"))
    if words:
        yield "sbatch", words
