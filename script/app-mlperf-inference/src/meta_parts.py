"""Prints the parts of meta.yaml files that follow from the catalogue: names to lines of YAML.

``cm doc script`` runs it and puts the lines between the marks of app-mlperf-inference and
run-mlperf-inference-app.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from mlperf import catalog
from mlperf.catalog import Assets, BackendSpec, BenchmarkSpec, Case, Step
from mlperf.catalog.run_inputs import GENERATES, OWN_BACKEND, OWN_MODEL

# Number formats that make a run faster, where the processor has instructions for them.
FASTEST = ("int8", "bfloat16")
# Of a network division nodes compute: LoadGen's machine needs nothing of a backend.
NOT_AT_LOADGEN = ["skip_if_env:", "  CM_NETWORK_LOADGEN:", "  - lon"]
# The benchmark of a backend that generates, where none is named.
GENERATED = "llama3.1-8b"
INT8 = ["enable_if_env:", "  CM_MLPERF_MODEL_PRECISION:", "  - int8"]


def main() -> None:
    """Print all parts as one JSON object."""
    specs = [spec for spec in catalog.benchmarks("").values() if spec.runnable]
    backends = [spec for spec in catalog.backends("").values() if spec.public]
    print(json.dumps(variations(specs, backends) | choices(specs, backends)))


def variations(specs: Sequence[BenchmarkSpec], backends: Sequence[BackendSpec]) -> dict[str, str]:
    """Return the variations of both scripts, and their defaults."""
    generated = GENERATED if GENERATED in {spec.name for spec in specs} else ""
    blocks = {
        "models": (block for spec in specs for block in _model(spec)),
        "backends": (_backend(spec, generated) for spec in backends),
        "devices": (_choice("device", "DEVICE", name) for name in _devices(backends)),
        "precisions": (_precision(name, specs) for name in _precisions(backends)),
        "rounds": map(_round, reversed(catalog.rounds.qsl_seeds())),
    }
    parts = {name: _joined(lines) for name, lines in blocks.items()}
    parts["prerequisites"] = "\n".join(line for spec in backends for line in _prerequisites(spec))
    chosen = [*(_fastest(name, specs) for name in FASTEST), _generating(specs)]
    return {**parts, "fastest": "\n".join("\n".join(lines) for lines in chosen if lines)}


def choices(specs: Sequence[BenchmarkSpec], backends: Sequence[BackendSpec]) -> dict[str, str]:
    """What the inputs of the user's entry may be."""
    had = {scenario for spec in specs for scenario in spec.all_scenarios()}
    words: dict[str, Iterable[str]] = {
        "model": [*(spec.name for spec in specs), f"{OWN_MODEL}#"],
        "backend": [*(spec.name for spec in backends), f"{OWN_BACKEND}#"],
        "device": _devices(backends),
        "precision": _precisions(backends),
        "scenario": (scenario for scenario in reversed(catalog.SCENARIOS) if scenario in had),
        "category": catalog.Category,
        "mode": catalog.MODE_WORDS,
    }
    options = [option for spec in backends for option in spec.options.values()]
    words |= {
        option.key.removeprefix("CM_MLPERF_").lower().replace("_", "-"): map(str, option.choices)
        for option in options
        if option.key and option.choices
    }
    return {f"{name}-choices": f"choices: [{', '.join(words_)}]" for name, words_ in words.items()}


def _devices(backends: Iterable[BackendSpec]) -> list[str]:
    return _each(device for spec in backends for device in spec.devices)


def _precisions(backends: Iterable[BackendSpec]) -> list[str]:
    return _each(precision for spec in backends for precision in spec.precisions)


def _each(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _joined(blocks: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _model(spec: BenchmarkSpec) -> list[list[str]]:
    """Return the variation of a benchmark, after the one with its common parts."""
    assert spec.assets is not None
    base, deps = spec.assets.base, ["  deps:", *_assets(spec.assets)]
    lines = [f"{spec.name}:", "  group: model"]
    lines += ["  default: true"] if spec.name == "resnet50" else []
    lines += ["  base:", f"  - {base}"] if base else []
    defaults = ["  default_variations:", f"    backend: {GENERATES}"] if spec.generates else []
    lines += [] if base else defaults
    lines += ["  env:", f"    CM_MLPERF_MODEL: {spec.name}", *([] if base else deps)]
    first = base and not spec.name.endswith("99.9")
    return [[f"{base}:", *defaults, *deps], lines] if first else [lines]


def _assets(assets: Assets) -> list[str]:
    lines = []
    for package in assets.packages:
        lines += _dep(f"get,generic-python-lib,_package.{package}", [package])
    model = _dep(assets.model, ["ml-model", f"{assets.model_name}-model"])
    data = _data(assets)
    return lines + (data + model if assets.by_hand else model + data)


def _data(assets: Assets) -> list[str]:
    name = assets.data_name
    lines = _dep(assets.data, ["dataset-preprocessed", f"{name}-preprocessed"])
    if assets.calibration:
        tags = f"{assets.data},{assets.calibration}"
        lines += _dep(tags, ["dataset-calibration", f"{name}-calibration"], INT8)
    return lines


def _dep(tags: str, names: Iterable[str] = (), more: Iterable[str] = ()) -> list[str]:
    lines = [f"  - tags: {tags}"]
    lines += ["    names:", *(f"    - {name}" for name in names)] if names else []
    return [*lines, *(f"    {line}" for line in more)]


def _choice(group: str, key: str, name: str) -> list[str]:
    default = ["  default: true"] if name in ("cpu", "float32") else []
    return [f"{name}:", f"  group: {group}", *default, "  env:", f"    CM_MLPERF_{key}: {name}"]


def _backend(spec: BackendSpec, generated: str) -> list[str]:
    """Return the variation of a backend; ``generated`` is the default model of those for tokens."""
    lines = [f"{spec.name}:", "  group: backend"]
    lines += ["  default: true"] if spec.name == "onnxruntime" else []
    if spec.generates and generated:
        lines += ["  default_variations:", f"    model: {generated}"]
    lines += [*_defaults(spec), "  env:", f"    CM_MLPERF_BACKEND: {spec.name}"]
    models = _models(spec)
    needed = _needed(spec, models)
    for case in spec.cases:
        needed += _needed(case, _condition(spec, case))
    lines += ["  deps:", *needed] if needed else []
    if spec.cases or models:
        lines.append("  update_meta_if_env:")
        for case in spec.cases:
            lines += _files_if(case, _condition(spec, case))
        return lines if spec.cases else [*lines, *_files_if(spec, models)]
    return [*lines, *_files(spec, spec.quantized)]


def _defaults(spec: BackendSpec) -> list[str]:
    """Return the defaults of its other scripts, and of those of its cases."""
    steps = (*spec.steps, *(step for case in spec.cases for step in case.steps))
    defaults = {k: v for step in steps for k, v in {**step.variations, **step.defaults}.items()}
    lines = [f"    {key}: {word or repr(word)}" for key, word in defaults.items()]
    return ["  default_env:", *lines] if lines else []


def _item(lines: Sequence[str]) -> list[str]:
    """The lines of a block as one item of a list."""
    return [f"  {'- ' if not n else '  '}{line}" for n, line in enumerate(lines)]


def _condition(spec: BackendSpec, case: Case) -> dict[str, Sequence[str]]:
    """The env key of a case's option, and its value there; the benchmarks, where it has not all."""
    return {spec.options[case.option].key: (case.value,), **_models(case)}


def _models(spec: BackendSpec | Case) -> dict[str, Sequence[str]]:
    """The benchmarks that it opens, where it has not all.

    Others have no such files: they are refused with a reason, which a plan would not come to.
    """
    return {"CM_MLPERF_MODEL": spec.only} if spec.only else {}


def _needed(spec: BackendSpec | Case, when: Mapping[str, Sequence[str]]) -> list[str]:
    """Its packages and its other scripts, where env is as ``when`` says."""
    lines = []
    for package in spec.packages:
        needed = {
            "CM_MLPERF_DEVICE": (package.device,) if package.device else (),
            "CM_MLPERF_MODEL": package.models,
            "CM_MLPERF_FORM": tuple(form or "''" for form in package.forms),
        }
        conditions = {key: values for key, values in needed.items() if values}
        tags = f"get,generic-python-lib,_package.{package.package}"
        lines += _dep(tags, package.names, [*_if({**when, **conditions}), *NOT_AT_LOADGEN])
    for step in spec.steps:
        if step.prerequisite:
            continue
        unset = {step.unless: ("''",)} if step.unless else {}
        lines += _dep(
            step.tags, step.names, _request(step, [*_if({**when, **unset}), *NOT_AT_LOADGEN])
        )
    return lines


def _prerequisites(spec: BackendSpec) -> list[str]:
    """Return the steps that only find something, which all others would be in vain without."""
    lines = []
    chosen = {"CM_MLPERF_BACKEND": (spec.name,)}
    cases = [(case, _condition(spec, case)) for case in spec.cases]
    for part, when in [(spec, _models(spec)), *cases]:
        for step in part.steps:
            if step.prerequisite:
                devices = {"CM_MLPERF_DEVICE": step.devices} if step.devices else {}
                conditions = [*_if({**chosen, **when, **devices}), *NOT_AT_LOADGEN]
                lines += _dep(step.tags, step.names, _request(step, conditions))
    # They are not in a variation.
    return [line[2:] for line in lines]


def _files(spec: BackendSpec | Case, quantized: str = "") -> list[str]:
    """The variations of model, quantizer and data that it opens."""
    quantizer = _add("ml-model-quantizer", quantized)[1:] if quantized else []
    data = _add("dataset-preprocessed", spec.data_tag)[1:] if spec.data_tag else []
    return [*_add("ml-model", spec.model_tag), *quantizer, *data]


def _files_if(spec: BackendSpec | Case, when: Mapping[str, Sequence[str]]) -> list[str]:
    """They, where env is as ``when`` says."""
    return _item([*_if(when), *(line[2:] for line in _files(spec))])


def _if(when: Mapping[str, Sequence[str]]) -> list[str]:
    values = {key: [f"  - {value}" for value in values] for key, values in when.items()}
    lines = [line for key, items in values.items() for line in (f"  {key}:", *items)]
    return ["enable_if_env:", *lines] if lines else []


def _request(step: Step, conditions: list[str]) -> list[str]:
    keys = [f"  - {key}" for key in step.variations]
    lines = ["update_tags_from_env_with_prefix:", "  _:", *keys] if keys else []
    lines += conditions
    if step.env:
        lines += ["env:", *(f"  {key}: {word}" for key, word in step.env.items())]
    return lines


def _add(name: str, tags: str) -> list[str]:
    return ["  add_deps:", f"    {name}:", f"      tags: {tags}"]


def _precision(name: str, specs: Iterable[BenchmarkSpec]) -> list[str]:
    lines = _choice("precision", "MODEL_PRECISION", name)
    if name == "int8":
        never = [spec.name for spec in specs if name in spec.refuses]
        env = ["env:", "  CM_CALIBRATION_DATASET_PATH: <<<CM_DATASET_PREPROCESSED_TRAINING_PATH>>>"]
        skip = ["skip_if_env:", "  CM_MLPERF_MODEL:", *(f"  - {model}" for model in never)]
        quantizer = _dep("quantize,ml-model,onnx,int8", ["ml-model-quantizer"], [*env, *skip])
        lines += ["  deps:", *quantizer]
    return [*lines, *_add("ml-model", "_fp32")]


def _fastest(name: str, specs: Iterable[BenchmarkSpec]) -> list[str]:
    """Return the default backend for processors that support it."""
    models = [spec.name for spec in specs if spec.fastest == name]
    precisions = ("''", "int8") if name == "int8" else ("''",)
    conditions = {
        f"CM_HOST_CPU_{name.upper()}": ("'yes'",),
        "CM_MLPERF_BACKEND": ("''",),
        "CM_MLPERF_DEVICE": ("cpu",),
        "CM_MLPERF_FORM": ("''", "synthetic"),
        "CM_MLPERF_MODEL": models,
        "CM_MLPERF_MODEL_PRECISION": precisions,
    }
    lines = [f"_openvino,_{name}:", "  enable_if_env:"]
    for key, values in conditions.items():
        lines += [f"    {key}:", *(f"    - {value}" for value in values)]
    return lines


def _generating(specs: Iterable[BenchmarkSpec]) -> list[str]:
    """Return the default backend of the benchmarks whose backend generates tokens."""
    models = [spec.name for spec in specs if spec.generates]
    if not models:
        return []
    conditions = {"CM_MLPERF_BACKEND": ("''",), "CM_MLPERF_MODEL": models}
    return [f"_{GENERATES}:", *(f"  {line}" for line in _if(conditions))]


def _round(name: str) -> list[str]:
    default = ["  default: true"] if name == catalog.rounds.LATEST else []
    env = ["  env:", f"    CM_MLPERF_INFERENCE_VERSION: '{name}'"]
    head = [f"r{name}:", "  group: benchmark-version", *default, *env]
    return [*head, "", f"r{name}-dev:", f"  alias: r{name}"]


if __name__ == "__main__":
    main()
