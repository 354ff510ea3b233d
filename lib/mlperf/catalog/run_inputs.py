"""What the env keys of a run ask for, checked against the catalogue before anything is installed.

An error says what to ask for instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import lookup, plugins
from .backend import BackendSpec
from .benchmark import BenchmarkSpec, Need
from .scenario import Scenario
from .text_enums import MODE_WORDS, CatalogError, Category, Mode

YES = ("yes", "true", "on", "1")
INSTEAD = "use the variation _all-scenarios for all that there are"

Env = Mapping[str, Any]


def is_set(env: Env, key: str) -> bool:
    """Return whether a yes-or-no input is on."""
    return str(env.get(key) or "no").lower() in YES


def own_folder(env: Env) -> str:
    """Return the user's folder of specifications, empty without one."""
    return str(env.get(plugins.KEY) or "")


# How a benchmark or a backend of the user's own is requested: --model=benchmark.NAME.
OWN_MODEL, OWN_BACKEND = "benchmark.", "backend."
# The backend of language models where none is named.
GENERATES = "llamacpp"
# So many packages of a backend of the user's own can be installed.
PACKAGES = 3


@dataclass(frozen=True, slots=True)
class PluginRequirements:
    """The requirements of the user's plugins: tags of model and data, and packages."""

    folder: str
    model: str = ""
    data: str = ""
    packages: tuple[str, ...] = ()

    def package(self, number: int) -> str:
        """Return the package with a number from 1 on; empty if there are fewer."""
        return self.packages[number - 1] if number <= len(self.packages) else ""


def of_plugins(env: Env) -> PluginRequirements:
    """Return the requirements of the user's plugins.

    Raises CatalogError where the folder has not what is requested, or needs too many packages.
    """
    needs = PluginRequirements(str(plugins.folder(own_folder(env))))
    own_backend = str(env.get("CM_MLPERF_BACKEND") or "").startswith(OWN_BACKEND)
    assets = benchmark(env).assets
    if str(env["CM_MLPERF_MODEL"]).startswith(OWN_MODEL) and assets is not None:
        files = [backend(env).model_tag] if own_backend else []
        needs = replace(needs, model=",".join([assets.model, *files]), data=assets.data)
    if own_backend:
        device = env.get("CM_MLPERF_DEVICE") or "cpu"
        needed = [package for package in backend(env).packages if package.device in ("", device)]
        needs = replace(needs, packages=tuple(package.package for package in needed))
    if len(needs.packages) > PACKAGES:
        raise CatalogError(f"a backend of your own can have {PACKAGES} packages at most")
    return needs


def benchmark(env: Env) -> BenchmarkSpec:
    """The benchmark that is to be run; raises CatalogError for one that cannot be run here."""
    name = str(env["CM_MLPERF_MODEL"]).removeprefix(OWN_MODEL)
    known = lookup.benchmarks(own_folder(env))
    able = [known_name for known_name, spec in known.items() if spec.runnable]
    _known(list(known), name, "model", able)
    if not known[name].runnable:
        raise CatalogError(
            f"--model={name} cannot be run here: {known[name].unavailable}",
            f"use one of: {', '.join(able)}",
            "not-available",
        )
    return known[name]


def scenarios(env: Env) -> tuple[Scenario, ...]:
    """Return the one scenario that is requested, or all that the benchmark has in the category.

    Without a word it is Offline, or the first of a benchmark that has no Offline.

    Raises CatalogError for a scenario or a category that it does not have.
    """
    category = env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or ""
    if category:
        _known(tuple(Category), category, "category")
    spec = benchmark(env)
    try:
        if is_set(env, "CM_MLPERF_LOADGEN_ALL_SCENARIOS"):
            return spec.all_scenarios(category)
        named = env.get("CM_MLPERF_LOADGEN_SCENARIO")
        return (spec.checked(named, category) if named else spec.usual_scenario(category),)
    except CatalogError as error:
        hint = f"{INSTEAD}, or leave out --category" if category else INSTEAD
        raise CatalogError(str(error), hint) from error


def modes(env: Env) -> tuple[Mode, ...]:
    """Return what to measure per scenario; compliance tests are added where requested."""
    word = env["CM_MLPERF_LOADGEN_MODE"]
    _known(MODE_WORDS, word, "mode")
    modes_requested = Mode.parse_modes(word)
    tested = is_set(env, "CM_MLPERF_LOADGEN_COMPLIANCE")
    alone = Mode.README in modes_requested or Mode.COMPLIANCE in modes_requested
    return (*modes_requested, Mode.COMPLIANCE) if tested and not alone else modes_requested


def precision(env: Env) -> str:
    """Return the number format; raises CatalogError for one that the model cannot be had in."""
    precision_name = str(env.get("CM_MLPERF_MODEL_PRECISION") or "float32")
    spec = benchmark(env)
    why = spec.refuses.get(precision_name)
    if why is not None:
        raise CatalogError(
            f"--precision={precision_name}: {spec.name} cannot be quantized here: {why}",
            "use --precision=float32",
            "not-available",
        )
    return precision_name


def backend(env: Env) -> BackendSpec:
    """Return the backend with its options applied; raises CatalogError for what it cannot do."""
    form = str(env.get("CM_MLPERF_MODEL_PRECISION") or "float32")
    device = str(env.get("CM_MLPERF_DEVICE") or "cpu")
    name = _backend_name(env, form)
    public = {key: spec for key, spec in lookup.backends(own_folder(env)).items() if spec.public}
    _known(tuple(public), name, "backend")
    public = _of_kind(env, public, name)
    chosen_options = options(env, public[name])
    public[name] = chosen_backend = public[name].where(public[name].chosen(chosen_options))
    called = _called(chosen_backend, chosen_options)
    _able(chosen_backend, str(env.get("CM_MLPERF_MODEL") or ""), called)
    able = [key for key, spec in public.items() if spec.computes(device, form)]
    if able and name not in able:
        raise _cannot(chosen_backend, called, device, form, able)
    return chosen_backend


def _generates(env: Env) -> bool:
    """Return whether the benchmark needs a backend that generates tokens."""
    name = str(env.get("CM_MLPERF_MODEL") or "").removeprefix(OWN_MODEL)
    spec = lookup.benchmarks(own_folder(env)).get(name) if name else None
    return spec is not None and spec.generates


def _of_kind(env: Env, public: Mapping[str, BackendSpec], name: str) -> dict[str, BackendSpec]:
    """Return the backends that generate tokens, or those that do not, as the benchmark needs it.

    Raises CatalogError where ``name`` is none of them.
    """
    generates = _generates(env)
    able = {key: spec for key, spec in public.items() if spec.generates == generates}
    if name not in able and env.get("CM_MLPERF_MODEL"):
        does = "generates no tokens" if generates else "generates tokens, and nothing else"
        raise CatalogError(
            f"--backend={name} does not run {env['CM_MLPERF_MODEL']}: it {does}",
            f"use another --backend: {', '.join(able)}; or another --model",
            "not-available",
        )
    return able if name in able else dict(public)


def _backend_name(env: Env, form: str) -> str:
    # As meta.yaml chooses where none is named.
    default = "openvino" if form == "bfloat16" else "onnxruntime"
    if _generates(env):
        default = GENERATES
    return str(env.get("CM_MLPERF_BACKEND") or default).removeprefix(OWN_BACKEND)


def _cannot(
    spec: BackendSpec, called: str, device: str, form: str, able: Sequence[str]
) -> CatalogError:
    option, value = ("precision", form) if device in spec.devices else ("device", device)
    text = f"--{option}={value}: {called} does not compute so here"
    hint = f"use --backend={' or --backend='.join(able)}, or another --{option}"
    return CatalogError(text, hint, "not-available")


def options(env: Env, spec: BackendSpec) -> dict[str, str]:
    """What the user set of the backend's options, by ``--backend_options`` or by their own flags.

    Raises CatalogError for words that set nothing, and where a flag of its own is to be used.
    """
    words = str(env.get("CM_MLPERF_BACKEND_OPTIONS") or "").split(",")
    settings = dict(_setting(spec, word) for word in words if word)
    keys = {name: option.key for name, option in spec.options.items() if option.key}
    settings |= {name: str(env[key]) for name, key in keys.items() if env.get(key)}
    for name in settings:
        needed = spec.options[name].needs if name in spec.options else ""
        if needed and needed not in settings:
            text = f"--backend_options: {name} has no effect without {needed}"
            raise CatalogError(text, f"leave out {name}, or add {needed}=VALUE")
    return settings


def _setting(spec: BackendSpec, word: str) -> tuple[str, str]:
    name, value = (part.strip() for part in (word.partition("=")[0], word.partition("=")[2]))
    if not (name and value):
        text = f"--backend_options: {name} has no value"
        raise CatalogError(text, "give name=value, several with commas between them")
    key = spec.options[name].key if name in spec.options else ""
    if key:
        text = f"--backend_options: {name} of {spec.name} has a flag of its own"
        raise CatalogError(text, f"give --{key.removeprefix('CM_MLPERF_').lower()}={value}")
    return name, value


def _called(spec: BackendSpec, settings: Mapping[str, str]) -> str:
    """Return a backend with the options that decide what it opens, as the user writes both."""
    deciding = {case.option for case in spec.cases} & settings.keys()
    return " ".join([spec.name, *(f"--{spec.name}_{name}={settings[name]}" for name in deciding)])


def _able(spec: BackendSpec, benchmark: str, called: str) -> None:
    """Raise CatalogError where a backend cannot run a benchmark."""
    why = spec.refuses.get(benchmark)
    if spec.only and benchmark and benchmark not in spec.only:
        why = f"it runs {', '.join(spec.only)} only"
    if why:
        text = f"--backend={called} does not run {benchmark}: {why}"
        raise CatalogError(text, "use another --backend, or another --model", "not-available")


def need(env: Env) -> Need | None:
    """Return the memory that the form of the benchmark takes, where that is more than is usual."""
    return benchmark(env).memory.get(env.get("CM_MLPERF_FORM") or "full")


def _known(
    choices: Sequence[str], value: str, name: str, shown: Sequence[str] | None = None
) -> None:
    if value not in choices:
        known = ", ".join(choices if shown is None else shown)
        raise CatalogError(f"--{name}={value} is not known", f"use one of: {known}")
