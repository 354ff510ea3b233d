"""What the entry promises, the scripts below it have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import benchmark_lab as lab
from mlperf import catalog


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


APP = read(lab.SCRIPT / "app-mlperf-inference" / "meta.yaml")
RUN = read(lab.SCRIPT / "run-mlperf-inference-app" / "meta.yaml")
MODELS = [name for name in RUN["input_description"]["model"]["choices"] if "#" not in name]
SCRIPTS = {path.parent.name: read(path) for path in lab.SCRIPT.glob("*/meta.yaml")}


def dependencies(model: str) -> dict[str, str]:
    """The tags of the model and of the data set of a benchmark."""
    variation = APP["variations"][model]
    deps = list(variation.get("deps", []))
    for base in variation.get("base", []):
        deps += APP["variations"][base].get("deps", [])
    return {
        name: dep["tags"]
        for dep in deps
        for name in ("ml-model", "dataset-preprocessed")
        if name in dep.get("names", [])
    }


def scripts_of(tags: str) -> list[str]:
    wanted = {tag for tag in tags.split(",") if not tag.startswith("_")}
    return [alias for alias, meta in SCRIPTS.items() if wanted <= set(meta["tags"])]


@pytest.mark.parametrize("form", ["full", "synthetic", "tiny"])
@pytest.mark.parametrize("model", MODELS)
def test_a_promised_form_has_a_model_and_a_data_set(form: str, model: str) -> None:
    if form in catalog.find(model).refuses:
        return
    needed = dependencies(model)
    assert set(needed) == {"ml-model", "dataset-preprocessed"}
    for tags in needed.values():
        aliases = scripts_of(tags)
        assert aliases, tags
        for alias in aliases:
            assert form == "full" or form in SCRIPTS[alias]["variations"], alias


@pytest.mark.parametrize(
    "name", [each for each, meta in SCRIPTS.items() if "tiny" in meta.get("variations", {})]
)
def test_a_plan_of_a_tiny_form_downloads_nothing_real(name: str) -> None:
    meta = SCRIPTS[name]
    form = meta["variations"]["tiny"].get("env", {})
    assert "fetches" not in meta, f"{name}: what it fetches is told of _tiny too"
    for dep in [*meta.get("deps", []), *meta.get("prehook_deps", [])]:
        if not dep["tags"].startswith("download"):
            continue
        skipped = any(form.get(key) in values for key, values in dep.get("skip_if_env", {}).items())
        assert skipped, f"{name}: {dep['tags']} is in the plan of _tiny"
