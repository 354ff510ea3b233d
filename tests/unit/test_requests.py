"""What a user types becomes what a script has declared, or is refused with what to type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.errors import Error
from cmbench.format.meta import parse_script
from cmbench.format.model import Request, Script, Tags
from cmbench.session.foreign_flags import without_foreign_flags
from cmbench.session.repeated_inputs import with_repeated
from cmbench.session.request import check_places, request_of

SCRIPTS = Path(__file__).parents[2] / "script"


def script(alias: str) -> Script:
    path = SCRIPTS / alias
    meta: dict[str, Any] = yaml.safe_load((path / "meta.yaml").read_text(encoding="utf-8"))
    return parse_script(meta, str(path), "cmbench")


def asked(alias: str, **flags: Any) -> Request:
    return request_of(flags, Tags(), "", script(alias))


@pytest.mark.parametrize("word", ["Offline", "offline", "OFFLINE"])
def test_a_choice_may_be_typed_in_any_case(word: str) -> None:
    assert asked("run-mlperf-inference-app", scenario=word).inputs["scenario"] == "Offline"


def test_another_word_is_refused_all_the_same() -> None:
    with pytest.raises(Error, match="scenario=offlin is not possible"):
        asked("run-mlperf-inference-app", scenario="offlin")


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("get-dataset-squad", "squad_path"),
        ("get-dataset-imagenet-val", "imagenet_path"),
        ("get-ml-model-gptj", "model_path"),
    ],
)
def test_a_place_is_the_one_that_the_script_has(alias: str, name: str, tmp_path: Path) -> None:
    request = asked(alias, path=str(tmp_path))
    assert request.inputs[name] == str(tmp_path)
    assert request.path == ""


def test_a_place_that_nothing_looks_at_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        asked("get-dataset-openimages", path=str(tmp_path))
    assert "--images_path" in caught.value.hint
    with pytest.raises(Error, match="does not use --path"):
        asked("get-mlperf-inference-loadgen", path=str(tmp_path))


def test_scripts_that_look_along_a_path_still_do(tmp_path: Path) -> None:
    for alias in ("get-python3", "get-triton-server"):
        assert asked(alias, path=str(tmp_path)).path == str(tmp_path)
    assert asked("get-dataset-brats", path=str(tmp_path)).inputs["path"] == str(tmp_path)


@pytest.mark.parametrize(
    ("alias", "flags", "code"),
    [
        ("run-mlperf-inference-app", {"model_path": "/none/m.onnx"}, "file-not-found"),
        ("run-mlperf-inference-app", {"results_dir": "/proc/none"}, "not-writable"),
        ("get-dataset-kits19", {"kits19_path": "/none"}, "file-not-found"),
        ("bench-triton-client", {"json": "/proc/none/a.json"}, "not-writable"),
        ("get-cudnn", {"env": {"CM_CUDNN_TAR_FILE_PATH": "/none.tar.xz"}}, "file-not-found"),
    ],
)
def test_places_of_any_script_are_looked_at_before_its_run(
    alias: str, flags: dict[str, Any], code: str
) -> None:
    found = asked(alias, **flags)
    with pytest.raises(Error) as refused:
        check_places(found, script(alias))
    assert refused.value.code == code
    check_places(asked(alias), script(alias))


def test_an_input_that_repeats_keeps_all_its_values() -> None:
    client = script("bench-triton-client")
    words = ["--shape=a:1", "--shape=b:2,3", "--shape=a:1", "--batch-size=1", "--batch-size=2"]
    flags, warnings = with_repeated({"shape": "a:1", "batch_size": "2"}, words, client)
    assert flags == {"shape": ["a:1", "b:2,3", "a:1"], "batch_size": "2"}
    assert warnings == ["warning: --batch_size is given 2 times, and only the last one counts"]
    assert request_of(flags, Tags(), "", client).inputs["shape"] == ["a:1", "b:2,3", "a:1"]


@pytest.mark.parametrize(
    "words", [None, "--shape=a:1", ["--shape=a:1"], ["--shape=a", "--shape=a"]]
)
def test_what_is_given_once_stays_as_it_is(words: Any) -> None:
    flags, warnings = with_repeated({"shape": "a:1"}, words, script("bench-triton-client"))
    assert (flags, warnings) == ({"shape": "a:1"}, [])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("concurrency_range", "--concurrency here"), ("streaming", "not measured here")],
)
def test_an_option_of_another_program_is_explained(name: str, hint: str) -> None:
    with pytest.raises(Error, match=f"--{name} is not possible") as caught:
        without_foreign_flags({name: "1"}, script("bench-triton-client"))
    assert hint in caught.value.hint
