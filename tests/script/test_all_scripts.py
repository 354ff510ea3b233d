"""Every script of this repository: planned in all variations, lint clean, documented, tested.

``cm doc script`` corrects what the test of the documentation finds.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml

from cmbench.api.author import plan_problems, run_call
from cmbench.api.resolving import make_context, make_plan, silent_facts
from cmbench.author import docs
from cmbench.author.author_session import Workbench
from cmbench.author.checks import REGISTRY
from cmbench.author.detection import read_cases, run_case
from cmbench.author.lint import choose_checks, lint
from cmbench.cli.commands import verb_of, verbs
from cmbench.cli.completion import complete
from cmbench.cli.dispatch import handle
from cmbench.format.schema import KEY_ORDER, META_SCHEMA, meta_schema, meta_schema_text
from cmbench.plan.requirements import declared_room
from cmbench.session import request as requests
from cmbench.session.workspace import Workspace
from support import ROOT, project_files

SCRIPTS = sorted(
    {path.parent for path in project_files() if path.match("script/*/meta.yaml")}
    & {path.parent for path in (ROOT / "script").glob("*/meta.yaml")}
)
each_script = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
each_case = pytest.mark.parametrize(
    ("path", "case"),
    [
        pytest.param(path, case, id=f"{path.name}: {case['name']}")
        for path in SCRIPTS
        for case in read_cases(str(path))
    ],
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """All scripts of this checkout, with an empty cache."""
    home = str(tmp_path_factory.mktemp("home"))
    return Workbench(Workspace.open(home, [str(ROOT)]), path=str(ROOT))


@each_script
def test_it_is_planned_with_its_defaults_and_each_variation(path: Path, bench: Workbench) -> None:
    assert list(plan_problems(bench, bench.index.script(str(path)))) == []


@each_script
def test_the_linter_finds_nothing(path: Path, bench: Workbench) -> None:
    faults = lint(str(path), bench.index, choose_checks(REGISTRY))
    assert [str(fault) for fault in faults] == []


@each_script
def test_its_meta_fits_the_published_schema(path: Path) -> None:
    meta = yaml.safe_load((path / "meta.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(meta_schema()).validate(meta)


@each_case
def test_its_detection_tests_hold(path: Path, case: dict[str, Any]) -> None:
    assert run_case(str(path), case, run_call).problems == ()


AS_LARGE_AS_A_MODEL_OF_THE_USER = {
    "generate-nvidia-engine",
    "get-ml-model-own",
    "get-preprocessed-dataset-criteo",
    "quantize-ml-model",
}


def test_a_script_that_keeps_something_says_how_much_room_it_takes() -> None:
    silent = set()
    for path in SCRIPTS:
        text = (path / "meta.yaml").read_text(encoding="utf-8")
        says = "required_disk_space: " in text or "CM_DOWNLOAD_SIZE" in text
        if yaml.safe_load(text).get("cache") and not says:
            silent.add(path.name)
    assert silent == AS_LARGE_AS_A_MODEL_OF_THE_USER


@pytest.mark.parametrize(
    ("name", "asked", "megabytes"),
    [
        ("get-preprocessed-dataset-imagenet", "", 30_000),
        ("get-preprocessed-dataset-imagenet", "_tiny,_training", 0),
        ("get-preprocessed-dataset-coco", "_for.ssd-resnet34,_calibration", 130),
        ("get-ml-model-resnet50", "", 102),
        ("get-ml-model-resnet50", "_synthetic", 102),
        ("get-ml-model-resnet50", "_tiny", 0),
        ("get-generic-python-lib", "_package.torch", 700),
        ("get-generic-python-lib", "_package.pyyaml", 0),
    ],
)
def test_the_room_is_that_of_the_form(
    name: str, asked: str, megabytes: int, bench: Workbench
) -> None:
    assert room(bench, name, {"tags": asked}) == megabytes * 10**6


def test_what_is_named_takes_no_room_and_what_it_is_made_of_does(
    bench: Workbench, tmp_path: Path
) -> None:
    source, store = {"imagenet_path": str(tmp_path)}, {"store": str(tmp_path)}
    assert room(bench, "get-preprocessed-dataset-imagenet", source) == 30 * 10**9
    assert room(bench, "get-preprocessed-dataset-imagenet", {**source, **store}) is None
    assert room(bench, "get-dataset-coco", {"coco_path": str(tmp_path)}) is None


def room(bench: Workbench, name: str, flags: dict[str, str]) -> int | None:
    """Bytes that a plan of the script says its entry takes."""
    script = bench.index.script(str(ROOT / "script" / name))
    tags, _ = requests.tags_of(flags)
    request = requests.request_of(flags, tags, script.uid, script)
    context = make_context(bench.as_written, silent_facts(bench.as_written))
    node = make_plan(bench.as_written, request, context).root
    assert node.step_run is not None
    return declared_room(node, node.step_run)


@each_script
def test_its_page_is_up_to_date(path: Path, bench: Workbench) -> None:
    wanted = docs.readme(bench.index.script(str(path)), bench.index)
    assert (path / "README.md").read_text(encoding="utf-8") == wanted, "run: cm doc script"


def test_the_pages_of_the_repository_are_up_to_date(bench: Workbench) -> None:
    pages = docs.repository_pages(str(ROOT), list(bench.scripts()), own=True)
    assert docs.stale(pages) == [], "run: cm doc script"


def test_the_published_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(meta_schema())
    assert (ROOT / META_SCHEMA).read_text(encoding="utf-8") == meta_schema_text()


@pytest.mark.parametrize(
    "change",
    [{"tag": []}, {"uid": 1}, {"deps": {}}, {"deps": [{}]}, {"variations": {"a": {"evn": {}}}}],
)
def test_the_schema_refuses_what_is_wrong(change: dict[str, Any]) -> None:
    meta = {"alias": "a", "uid": "b", "tags": ["c"], **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(meta_schema()).validate(meta)


def test_the_reference_names_every_key_of_the_house_order() -> None:
    text = (ROOT / "docs/reference/meta.md").read_text(encoding="utf-8")
    assert [key for key in KEY_ORDER if f"`{key}`" not in text] == []


def test_a_stale_page_and_a_new_fault_are_found(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    copy = tmp_path / "script/detect-os"
    shutil.copytree(ROOT / "script/detect-os", copy)
    text = (copy / "meta.yaml").read_text()
    (copy / "meta.yaml").write_text(text + "\nnew_env_kyes: []\n")
    changed = Workbench(bench.as_written, path=str(copy))
    faults = lint(str(copy), changed.index, choose_checks(REGISTRY))
    assert [(f.number, f.line) for f in faults] == [("CMB101", len(text.splitlines()) + 2)]
    (copy / "meta.yaml").write_text(text.replace("- info", "- news"))
    changed = Workbench(bench.as_written, path=str(copy))
    page = docs.readme(next(changed.scripts()), changed.index)
    assert docs.stale({str(copy / "README.md"): page})


def test_every_verb_of_the_help_is_one_that_works(bench: Workbench) -> None:
    names = {"find": "search", "rm": "delete"}
    known = [(thing, names.get(word, word)) for thing, words in verbs().items() for word in words]
    assert all(verb_of(thing, word) for thing, word in known)
    assert "script" in complete("cm lint ", verbs(), bench.index)


def test_scripts_of_another_project_do_not_upset_the_tools(tmp_path: Path) -> None:
    other = os.environ.get("CMBENCH_TEST_OTHER_REPOSITORY", "")
    if not os.path.isdir(other):
        pytest.skip("CMBENCH_TEST_OTHER_REPOSITORY names no repository of CM scripts")
    cmind = SimpleNamespace(repos_path=str(tmp_path), repos=SimpleNamespace(lst=[]))
    answer = handle("script", "lint", cmind, {"path": other})
    assert answer["return"] in (0, 1)
    assert len(answer["faults"]) > 0
