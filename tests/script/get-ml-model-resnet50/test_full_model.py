"""The full ResNet-50: downloaded from the first mirror that has it, described, judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_lab as lab
from mlperf import catalog
from mlperf.catalog import benchmark as rules_of
from mlperf.harness import records
from mlperf.harness.benchmarks.image_classification import ImageClassification
from mlperf.harness.settings import ModelSpec
from support import served

customize = lab.module_of(lab.SCRIPT / "get-ml-model-resnet50" / "customize.py")
FULL: dict[str, Any] = customize.FULL


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "site"
    folder.mkdir()
    with served(folder) as url:
        yield folder, url


def asked(home: Any, url: str, mirror: str, *words: str) -> dict[str, Any]:
    given = (f"--env.CM_PACKAGE_URL={url}", f"--env.CM_PACKAGE_URL1={mirror}")
    more = ("--env.CM_PACKAGE_URL2=", "--quiet", "--out=json")
    tags = "--tags=get,ml-model,resnet50,raw,_onnx,_fp32"
    done: dict[str, Any] = home.cm("run", "script", tags, *given, *words, *more).json
    return done


def test_it_is_downloaded_from_a_mirror_and_described(home: Any, site: tuple[Path, str]) -> None:
    folder, url = site
    (folder / "resnet50_v1.onnx").write_bytes(b"weights")
    checksum = hashlib.md5(b"weights").hexdigest()
    mirror = f"{url}/resnet50_v1.onnx"
    done = asked(home, f"{url}/gone.onnx", mirror, f"--env.CM_RESNET50_CHECKSUM={checksum}")
    assert done["return"] == 0, done
    env = done["new_env"]
    assert Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).read_bytes() == b"weights"
    told = json.loads(Path(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"]).read_text())
    assert {key: told[key] for key in FULL} == FULL
    assert told["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert (env["CM_ML_MODEL_ACCURACY_TARGET"], env["CM_ML_MODEL_IMAGE_WIDTH"]) == (
        "75.6954",
        "224",
    )


def test_another_file_than_the_pinned_one_is_refused(home: Any, site: tuple[Path, str]) -> None:
    folder, url = site
    (folder / "resnet50_v1.onnx").write_bytes(b"no model")
    assert asked(home, f"{url}/resnet50_v1.onnx", "")["code"] == "checksum-mismatch"


def test_it_has_the_bounds_of_the_rules_and_the_signature_of_the_tiny_form() -> None:
    (metric,) = catalog.benchmark("resnet50").accuracy
    stated = FULL["accuracy"]
    assert (stated["reference"], stated["target"]) == (metric.reference, metric.target)
    tiny = json.loads((lab.MODEL / "model.json").read_text())
    for kind in ("inputs", "outputs"):
        names = [(each["name"], each["dtype"], len(each["shape"])) for each in FULL[kind]]
        assert names == [(each["name"], each["dtype"], len(each["shape"])) for each in tiny[kind]]


def test_class_0_of_1001_is_the_background(tmp_path: Path) -> None:
    """The label of the data set is one less than what the model says."""
    labels = np.asarray([0, 65, 999])
    np.save(tmp_path / "samples.npy", np.zeros((3, 3, 224, 224), dtype=np.float32))
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "dataset.json").write_text('{"count": 3}')
    spec = records.decode(ModelSpec, {**FULL, "path": "", "sha256": ""})
    benchmark = ImageClassification(tmp_path, spec, rules_of("resnet50"))
    results = benchmark.result.rows(3)
    benchmark.postprocess([labels + np.asarray([1, 1, 0])], results, np.zeros(3))
    figure = benchmark.accuracy([row.tobytes() for row in results], np.arange(3))
    assert figure.value == pytest.approx(200 / 3)
