"""From a plan to a container: its image, its folders, its user and its command, all as values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cmbench.cache.retention import with_dependencies
from cmbench.cache.store import CacheEntry, CacheStore
from cmbench.container import command as command_in
from cmbench.container.engines import (
    ContainerJob,
    ContainerProgram,
    ignored_settings,
    require_kept_containers,
)
from cmbench.container.mounts import Folders, Mount, extra_mounts, of_inputs, plan_folders
from cmbench.container.options import ContainerOptions, declared
from cmbench.container.recipe import (
    CERTIFICATES,
    CM_HOME,
    ENGINE_ROOT,
    HOME,
    ContainerRecipe,
    containerfile,
    definition,
    digest,
)
from cmbench.container.systems import base_image, tools_of
from cmbench.errors import Error
from cmbench.format.model import Request
from cmbench.index.scripts import Repository
from cmbench.lib.engine_code import travelling
from cmbench.lib.secrecy import mask_word
from cmbench.plan.planned_step import Plan, walk
from cmbench.plan.step_run import StepRun

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")
PROXIES = (*_PROXIES, *(name.upper() for name in _PROXIES))
_HANDED = (*PROXIES, "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "HF_TOKEN")
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_SECRET_WORDS = "CM_SCRIPT_EXTRA_CMD"


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What of this machine and of the call a design depends on.

    ``root`` is the folder of cmbench in the CM home, ``tags``, ``uid`` and ``flags`` are the call
    without the flags of containers.
    """

    root: str
    store: CacheStore
    repositories: Sequence[Repository]
    environ: Mapping[str, str]
    tags: str
    uid: str
    flags: Mapping[str, Any]
    current: str
    offline: bool = False


@dataclass(frozen=True, slots=True)
class ContainerDesign:
    """A container before anything of it is made.

    ``environ`` is the environment of the engine's commands, ``secret`` are names of what in it
    nobody may see, ``baked`` are the cache entries that go into the image.
    """

    engine: ContainerProgram
    job: ContainerJob
    text: str
    base: str
    home: str
    folders: Folders
    baked: tuple[CacheEntry, ...]
    environ: Mapping[str, str]
    registered: tuple[str, ...]
    notes: tuple[str, ...]


def design(
    engine: ContainerProgram,
    options: ContainerOptions,
    plan: Plan,
    request: Request,
    world: ContainerContext,
) -> ContainerDesign:
    """The container for ``plan``; raises ``bad-value`` for what cannot be."""
    top = plan.step_run
    base, manager = base_image(options.base_image, options.os, options.os_version)
    baked = _baked(options, plan, world)
    labels = {"org.opencontainers.image.title": f"cmbench {top.script.alias}"}
    if baked:
        # Other entries are another image, and its name follows from its text.
        labels["cmbench.cache"] = digest(" ".join(sorted(entry.key for entry in baked)))
    recipe = ContainerRecipe(
        base=base,
        manager=manager,
        tools=_tools(plan, options),
        labels=labels,
        baked=world.store.root if baked else "",
    )
    text = definition(recipe) if engine.name == "apptainer" else containerfile(recipe)
    folder = os.path.join(world.root, "containers", folder_name(base))
    home = os.path.join(folder, f"home-{engine.owner[0]}")
    registered = registered_repositories(world.repositories)
    fixed, env = fixed_mounts(home, registered, options.cached, bool(baked), world)
    folders, notes = _folders(fixed, top, request, options, world)
    words, environ, passed_variables, more = _command(engine, options, request, world)
    notes = [*options.notes, *more, *notes, *_home_note(engine, home)]
    job = _job(engine, options, world, folder, text, top)
    job = replace(
        job,
        command=(*(["--then-shell"] if options.interactive else []), *words),
        mounts=folders.mounts,
        work=folders.work,
        env={**env, **_shown(engine, passed_variables, environ)},
        passed_variables=() if engine.name == "buildah" else passed_variables,
    )
    if job.detached or job.kept:
        require_kept_containers(engine, job)
    notes += ignored_settings(engine, job)
    names = tuple(repository.path for repository in registered)
    return ContainerDesign(
        engine, job, text, base, home, folders, baked, environ, names, tuple(dict.fromkeys(notes))
    )


def _tools(plan: Plan, options: ContainerOptions) -> tuple[str, ...]:
    """Return the packages that the steps of the plan, and the user, require."""
    tools: list[str] = list(options.packages)
    for planned_step in walk(plan.root):
        step_run = planned_step.step_run
        if step_run is not None:
            packages = declared(step_run).get("packages")
            tools += map(
                str, packages if isinstance(packages, list) else tools_of(step_run.script.alias)
            )
    return tuple(sorted(set(tools)))


def _baked(
    options: ContainerOptions, plan: Plan, world: ContainerContext
) -> tuple[CacheEntry, ...]:
    """The entries that the plan found, and those that they were made with."""
    if options.cached != "bake":
        return ()
    paths = {planned_step.entry for planned_step in walk(plan.root) if planned_step.entry}
    store = world.store
    entries = (store.entry(e.key) for e in store.listed() if e.path in paths and store.owns(e))
    hits = [entry for entry in entries if entry is not None]
    return tuple(e for e in with_dependencies(hits, store.entry) if store.owns(e))


def folder_name(base: str) -> str:
    """A name for the folder of what belongs to the containers with one base image."""
    name = re.sub(r"[^\w.-]+", "-", base.partition("@")[0].rpartition("/")[2])
    return f"{name[:40]}-{digest(base)[:8]}"


EVERYWHERE = ("internal", "local")
"""Repositories that every CM home has for itself."""


def registered_repositories(repositories: Sequence[Repository]) -> list[Repository]:
    """Return the repositories that a container mounts and registers.

    That of an installed cmbench comes with its package, which cmind registers there by itself.
    """
    brought = travelling()
    return [
        repository
        for repository in repositories
        if repository.alias not in EVERYWHERE
        and not any(Path(repository.path).resolve().is_relative_to(path) for path in brought)
    ]


def fixed_mounts(
    home: str, repositories: Sequence[Repository], cached: str, baked: bool, world: ContainerContext
) -> tuple[list[Mount], dict[str, str]]:
    """Return the mounts that every run needs, and the variables that name them to ``cm``."""
    mounts = [Mount(home, HOME, True, "HOME of the container")]
    env: dict[str, str] = {"HOME": HOME, "CM_REPOS": CM_HOME}
    mounts += [Mount(r.path, r.path, False, f"scripts: {r.alias}") for r in repositories]
    mounts += [
        Mount(str(path), f"{ENGINE_ROOT}/{path.name}", False, "cmbench itself")
        for path in travelling()
    ]
    if cached == "mount" and os.path.isdir(world.store.root):
        mounts.append(Mount(world.store.root, world.store.root, False, "cache of this machine"))
    if baked or (cached == "mount" and os.path.isdir(world.store.root)):
        env["CMBENCH_SHARED"] = world.root
    own = certificates(world.environ)
    if own:
        mounts.append(Mount(own, CERTIFICATES, False, "certificates"))
    return mounts, env


def certificates(environ: Mapping[str, str]) -> str:
    """The file of the user's own certificates; empty where there is none."""
    paths = (environ.get(name, "") for name in _CERTIFICATES)
    return next((os.path.realpath(path) for path in paths if path and os.path.isfile(path)), "")


def pip_settings(environ: Mapping[str, str]) -> str:
    """The file of pip's settings; empty where there is none."""
    home = environ.get("HOME", "")
    places = [environ.get("PIP_CONFIG_FILE", "")]
    places += [f"{home}/.config/pip/pip.conf", f"{home}/.pip/pip.conf"] if home else []
    return next((path for path in places if path and os.path.isfile(path)), "")


def _folders(
    fixed: Sequence[Mount],
    top: StepRun,
    request: Request,
    options: ContainerOptions,
    world: ContainerContext,
) -> tuple[Folders, list[str]]:
    # The plan knows the outputs of cached steps, and the requested inputs.
    known = {key: top.env.peek(key) for key in dict.keys(top.env)} | dict(request.env)
    values = {key: value for key, value in known.items() if isinstance(value, str)}
    for name, value in request.inputs.items():
        for key in {options.input_mapping.get(name, ""), _key_of(top, name)} - {""}:
            values[key] = str(value)
    extra, notes = extra_mounts(options, {**world.environ, **values})
    inputs = list(of_inputs(request, top.script, world.flags, options))
    current = world.current if options.current_folder else ""
    folders = plan_folders(fixed, inputs, extra, current, HOME)
    return folders, [*folders.notes, *notes]


def _key_of(top: StepRun, name: str) -> str:
    return next((b.input_mapping[name] for b in top.step.blocks if name in b.input_mapping), "")


def _home_note(engine: ContainerProgram, home: str) -> Iterable[str]:
    yield f"what scripts write to ~ is in {home}"
    if engine.owner[0] == 0 and not engine.rootless:
        yield "you are root, so the results will belong to root"


def _command(
    engine: ContainerProgram, options: ContainerOptions, request: Request, world: ContainerContext
) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...], list[str]]:
    """Return words, environment of the program, names to pass from it, and notes."""
    words, hidden = command_in.inner_words(world.tags, world.uid, world.flags, request)
    environ, passed_variables = _passed_variables(options, world, command_in.extra_command(hidden))
    secret = [name for name in passed_variables if _is_secret(name, environ[name])]
    if engine.name == "buildah" and _SECRET_WORDS in secret:
        raise Error(
            "bad-value",
            "buildah cannot pass on a secret without showing it to every user of this machine",
            hint="use another engine: --docker_engine=podman",
        )
    lost = secret if engine.name == "buildah" else []
    notes = [f"{name} is not passed on: buildah would show it to others" for name in lost]
    return words, environ, tuple(n for n in passed_variables if n not in lost), notes


def _passed_variables(
    options: ContainerOptions, world: ContainerContext, secret_words: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of the engine's commands, and the names in it that go into the container."""
    environ = dict(world.environ)
    environ.pop(_SECRET_WORDS, None)
    names = [name for name in (*_HANDED, *options.env) if environ.get(name)]
    for name in options.env:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise Error("bad-value", f"--docker_env={name} is not a valid variable name")
    if secret_words:
        environ[_SECRET_WORDS] = secret_words
        names.append(_SECRET_WORDS)
    if options.gh_token or environ.get("GH_TOKEN"):
        environ["GH_TOKEN"] = options.gh_token or environ["GH_TOKEN"]
        names.append("GH_TOKEN")
    return environ, tuple(dict.fromkeys(names))


def _is_secret(name: str, value: str) -> bool:
    word = f"{name}={value}"
    return name == _SECRET_WORDS or mask_word(word) != word


def _shown(
    engine: ContainerProgram, passed_variables: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """What buildah, which takes no variable by name alone, is given with its value."""
    return {name: environ[name] for name in passed_variables} if engine.name == "buildah" else {}


def _job(
    engine: ContainerProgram,
    options: ContainerOptions,
    world: ContainerContext,
    parent: str,
    text: str,
    top: StepRun,
) -> ContainerJob:
    tag = digest(text)
    name = re.sub(r"[^a-z0-9._-]+", "-", (options.image_name or top.script.alias).lower())
    name = name.strip("._-") or "script"
    folder = os.path.join(parent, f"{name}-{tag}")
    apptainer = engine.name == "apptainer"
    secrets = {
        "cmbench_ca": certificates(world.environ),
        "cmbench_pip": pip_settings(world.environ),
    }
    return ContainerJob(
        image=os.path.join(folder, "image.sif") if apptainer else f"localhost/cmbench/{name}:{tag}",
        file=os.path.join(folder, "image.def" if apptainer else "Containerfile"),
        context=os.path.join(folder, "context"),
        command=(),
        name=f"cmbench-{os.getpid()}-{tag}",
        host=host_name(),
        build_args=tuple(n for n in PROXIES if world.environ.get(n)),
        secrets={key: path for key, path in secrets.items() if path},
        network=options.network or network_of(world),
        shm_size=options.shm_size,
        gpus=options.gpus,
        devices=options.devices,
        ports=options.ports,
        privileged=options.privileged,
        extra=options.extra_run_args,
        interactive=options.interactive,
        detached=options.detached,
        kept=options.kept,
        rebuild=options.rebuild,
    )


def host_name() -> str:
    """The name of this machine, where a container can have it too."""
    name = os.uname().nodename
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}", name) else ""


def network_of(world: ContainerContext) -> str:
    """None for a run without network; that of the machine where its proxy is on the machine."""
    if world.offline:
        return "none"
    hosts = {urlsplit(world.environ.get(name, "")).hostname for name in PROXIES if "no" not in name}
    return "host" if hosts & {"localhost", "127.0.0.1", "::1"} else ""
