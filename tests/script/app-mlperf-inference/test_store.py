"""Stored targets: a file that people edit, and the order in which targets count."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import benchmark_lab as lab
from mlperf import catalog
from mlperf.catalog import OFFLINE, SERVER, SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import SCENARIOS, Overrides, SessionSettings, WorkerShape
from mlperf.harness.tuning import store, targets
from mlperf.harness.tuning.profile import SpeedProfile, ThroughputPoint

name = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=12).filter(
    lambda text: not text.startswith(("-", ".")) and text not in ("n", "y", "e")
)
number = st.floats(min_value=1e-6, max_value=1e9)
note = st.text("abc ,.0123456789-", max_size=30).filter(lambda text: not text.strip("0123456789.-"))


def calibrated(rate: float) -> SpeedProfile:
    point = ThroughputPoint(WorkerShape(1, 1, 8), rate, 0.001)
    return SpeedProfile(2, 540, point, point, {}, 0.015, {}, (point,), {}, 1.0)


def opened(folder: Path, **changes: object) -> store.TargetStore:
    asked = lab.settings(folder, dataset="x", sut_dir=str(folder / "sut"), **changes)
    found = store.open_store(records.decode(SessionSettings, asked))
    assert found is not None
    return found


@given(
    st.dictionaries(
        name.map(lambda text: f"m{text}"),
        st.dictionaries(
            st.sampled_from(SCENARIOS),
            st.fixed_dictionaries({"target_qps": number, "found": note}),
            min_size=1,
        ),
        max_size=3,
    )
)
def test_what_is_written_is_yaml_and_reads_back(
    tmp_path_factory: pytest.TempPathFactory, content: store.Content
) -> None:
    path = tmp_path_factory.mktemp("sut") / "system.yaml"
    text = store.HEADING + store.text(content)
    path.write_text(text, encoding="utf-8")
    read = store.read(path)
    for model, scenarios in (yaml.safe_load(text) or {}).items():
        for scenario, entry in scenarios.items():
            assert read[model][scenario]["target_qps"] == pytest.approx(
                float(entry["target_qps"]), rel=1e-9
            )
    assert set(read) == set(content)


def test_an_edited_file_is_understood(tmp_path: Path) -> None:
    found = opened(tmp_path)
    found.path.parent.mkdir(parents=True)
    found.path.write_text(
        "---\n# mine\nresnet50-tiny:   # the tiny one\n    Server:\n"
        '        target_qps: 12.5  # by hand\n        found: "by me"\n\n'
        "    SingleStream:\n        target_latency: 3\n'bert-99':\n  Offline:\n    target_qps: 7\n",
        encoding="utf-8",
    )
    assert found.target(SERVER) == 12.5
    assert found.target(SINGLE_STREAM) == 3
    assert found.target(OFFLINE) is None
    found.put(OFFLINE, 1234.5678, "2026, one run")
    assert found.target(SERVER) == 12.5
    kept = yaml.safe_load(found.path.read_text(encoding="utf-8"))
    assert kept["bert-99"]["Offline"]["target_qps"] == 7
    assert kept["resnet50-tiny"]["Offline"] == {"target_qps": 1234.57, "found": "2026, one run"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet50-tiny\n", "line 1: expected 'name: value'"),
        ("target_qps: 3\n", "line 1: expected model, scenario, then a target"),
        ("resnet50-tiny:\n  target_qps: 3\n", "line 2: expected model, scenario"),
        ("resnet50-tiny:\n  Server:\n    target_qps: fast\n", "target_qps of .* is fast"),
        ("resnet50-tiny:\n  Server:\n    target_qps: -1\n", "a number above zero is needed"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    found = opened(tmp_path)
    found.path.parent.mkdir(parents=True)
    found.path.write_text(text, encoding="utf-8")
    with pytest.raises(HarnessError, match=message) as caught:
        found.target(SERVER)
    assert str(found.path) in str(caught.value)


def test_systems_and_forms_do_not_share_targets(tmp_path: Path) -> None:
    mine = opened(tmp_path)
    mine.put(SERVER, 5.0, "x")
    assert opened(tmp_path, form="").target(SERVER) is None
    assert opened(tmp_path, hw_name="another box").target(SERVER) is None
    assert opened(tmp_path, backend="null").target(SERVER) is None
    assert opened(tmp_path).target(SERVER) == 5
    assert mine.path == tmp_path / "sut" / "lab" / "cmbench-cpu-onnxruntime-float32.yaml"


def triton(folder: Path, **options: str) -> store.TargetStore:
    return opened(folder, backend="triton", backend_options=options)


def test_what_a_server_computes_with_has_targets_of_its_own(tmp_path: Path) -> None:
    runtimes = catalog.backend("triton").options["backend"].choices
    files = {triton(tmp_path, backend=str(each)).path for each in runtimes}
    assert len(files) == len(runtimes)
    default = triton(tmp_path)
    default.put(OFFLINE, 9.0, "x")
    assert default.path.name == "cmbench-cpu-onnxruntime-triton-float32.yaml"
    assert triton(tmp_path, backend="openvino").target(OFFLINE) is None
    assert triton(tmp_path, shared_memory="system").target(OFFLINE) is None
    assert default.target(OFFLINE) == 9


def test_the_address_of_a_server_is_no_line_that_cannot_be_read(tmp_path: Path) -> None:
    theirs, more = triton(tmp_path, url="[::1]:8000"), triton(tmp_path, url="a/../b: 'c'\n#d")
    theirs.put(OFFLINE, 9.0, "x")
    more.put(OFFLINE, 5.0, "x")
    assert (theirs.target(OFFLINE), more.target(OFFLINE)) == (9, 5)
    assert list(yaml.safe_load(more.path.read_text("utf-8"))) == [theirs.key, more.key]
    assert "/" not in more.key


@pytest.mark.parametrize(
    ("given_qps", "stored", "qps", "origin"),
    [
        (7.0, 50.0, 7.0, "option"),
        (None, 50.0, 50.0, "stored target"),
        (None, None, 0.5 / (1 / 100 + 20e-6), "calibration"),
    ],
)
def test_an_option_beats_the_store_and_that_the_calibration(
    given_qps: float | None, stored: float | None, qps: float, origin: str
) -> None:
    wanted = Overrides(server_target_qps=given_qps)
    aim = targets.initial(calibrated(100), wanted, SERVER, "performance", "valid", stored)
    assert aim.qps == pytest.approx(qps)
    assert aim.origin == origin


def test_a_short_server_run_stays_below_the_rate_of_a_full_one() -> None:
    args = (calibrated(100), Overrides(), SERVER, "performance", "test", 50.0)
    assert targets.initial(*args).qps == pytest.approx(45)
    assert targets.initial(*args).origin == "0.9 x the stored target"
