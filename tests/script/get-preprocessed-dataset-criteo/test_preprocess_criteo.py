"""Arrays from a log and from MLCommons's arrays; what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from support import LIB

SCRIPT = forms.SCRIPT / "get-preprocessed-dataset-criteo"
preprocess = lab.module_of(LIB / "modelzoo/preprocessing/criteo" / "preprocess.py")
customize = lab.module_of(SCRIPT / "customize.py")


def mlcommons_arrays(folder: Path, pairs: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    hot = [3, 1] + [2] * 24
    values = [random.integers(0, 9, (pairs, many), dtype=np.int32) for many in hot]
    np.save(folder / "day_23_dense.npy", random.random((pairs, 13), dtype=np.float32))
    np.save(folder / "day_23_labels.npy", random.integers(0, 2, (pairs, 1), dtype=np.int32))
    named = {str(number): value for number, value in enumerate(values)}
    np.savez(folder / "day_23_sparse_multi_hot.npz", **named)
    return values


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_tiny_arrays_are_what_their_facts_say(version: str) -> None:
    folder = forms.clicks(version)
    facts = json.loads((folder / "dataset.json").read_text())
    for name, file in facts["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == file["sha256"]
    offsets = np.load(folder / "offsets.npy")
    sizes = np.diff(offsets)
    assert (offsets[0], offsets[-1], facts["count"]) == (0, 64_000, len(sizes))
    assert set(sizes[:-1]) == {1, 2, 3, 4, 5, 6, 7}
    assert np.load(folder / "indices.npy").shape == (64_000, sum(facts["hot"]))


def test_a_line_becomes_logarithms_and_rows(tmp_path: Path) -> None:
    words = ["1", "", "-2", *["9"] * 11, *[f"{number:08x}" for number in range(30, 56)]]
    (tmp_path / "day").write_text("\t".join(words) + "\n")
    labels, counts, values = preprocess.read_day(tmp_path / "day")
    assert labels.tolist() == [1]
    np.testing.assert_allclose(preprocess.dense_of(counts)[0, :3], [0, 0, np.log(10)], rtol=1e-6)
    rows, hot = [20] * 26, [2] + [1] * 25
    found = preprocess.indices_of(values, rows, hot)
    assert found[0, 0] == 10
    assert found[0, 2:].tolist() == [(31 + k) % 20 for k in range(25)]
    (tmp_path / "day").write_text("1\t2\n")
    with pytest.raises(preprocess.ProgramError, match="day:1: 2 columns, expected 40"):
        preprocess.read_day(tmp_path / "day")


def test_mlcommons_arrays_give_their_first_half(tmp_path: Path) -> None:
    values = mlcommons_arrays(tmp_path, 9)
    (tmp_path / "groups").write_text("0, 2, 2\n2, 5, 3\n")
    out = tmp_path / "out"
    out.mkdir()
    words = ["--arrays", str(tmp_path), "--groups", str(tmp_path / "groups")]
    assert preprocess.main([*words, "--name", "criteo", "--out", str(out)]) == 0
    facts = json.loads((out / "dataset.json").read_text())
    assert (facts["count"], facts["pairs"], facts["largest_group"]) == (2, 5, 3)
    expected = np.concatenate([value[:5] for value in values], axis=1)
    np.testing.assert_array_equal(np.load(out / "indices.npy"), expected)
    np.testing.assert_array_equal(np.load(out / "offsets.npy"), [0, 2, 5])
    (tmp_path / "groups").write_text("0, 2, 2\n3, 5, 2\n")
    assert preprocess.main([*words, "--name", "criteo", "--out", str(out)]) == 1


def test_what_the_user_must_bring_is_said(tmp_path: Path) -> None:
    env = {"CM_DATASET_CRITEO_MULTIHOT": "yes", "CM_DATASET_CRITEO_GROUPS": ""}
    env["CM_CRITEO_PART"] = "validation"
    with pytest.raises(Error, match="licence has to be accepted"):
        customize.real(env)
    env["CM_CRITEO_PREPROCESSED_PATH"] = str(tmp_path)
    with pytest.raises(Error, match=r"lacks day_23_dense.npy, .*labels.npy"):
        customize.real(env)
    mlcommons_arrays(tmp_path, 4)
    words, files = customize.real(env)
    assert words == ["--arrays", str(tmp_path)]
    assert len(files) == 3


def binary(path: Path, pairs: int, highest: int = 3) -> np.ndarray:
    """Pairs as the first DLRM's preprocessing writes them: label, 13 counts, 26 rows, int32."""
    random = np.random.default_rng(2)
    labels = random.integers(0, 2, (pairs, 1))
    counts, values = random.integers(0, 9, (pairs, 13)), random.integers(0, highest, (pairs, 26))
    table = np.concatenate([labels, counts, values], axis=1).astype("<i4")
    table.tofile(path)
    return table


def test_the_file_of_the_first_dlrm_becomes_arrays(tmp_path: Path) -> None:
    path = tmp_path / "terabyte_processed_test.bin"
    table = binary(path, 1000)
    words = ["--binary", str(path), "--rows", ",".join(["3"] * 26), "--name", "criteo"]
    assert preprocess.main([*words, "--out", str(tmp_path)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), table[:, 0])
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), table[:, 14:])
    dense = np.log1p(table[:, 1:14].astype(np.float64))
    np.testing.assert_allclose(np.load(tmp_path / "dense.npy"), dense, rtol=1e-6)
    facts = json.loads((tmp_path / "dataset.json").read_text())
    assert facts["pairs"] == 1000
    assert facts["groups"] == "uniform, 100 to 700 pairs"


def test_another_file_than_that_of_the_first_dlrm_is_refused(tmp_path: Path) -> None:
    path, rows = tmp_path / "terabyte_processed_test.bin", [3] * 26
    binary(path, 10, highest=5)
    with pytest.raises(preprocess.ProgramError, match="in category 0, whose table has 3 rows"):
        preprocess.from_binary(path, rows, preprocess.PairSelection(), tmp_path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(preprocess.ProgramError, match="1596 bytes, not 40 int32 a pair"):
        preprocess.from_binary(path, rows, preprocess.PairSelection(), tmp_path)


def test_the_full_forms_of_both_versions_name_their_files(tmp_path: Path) -> None:
    env = {
        "CM_CRITEO_PREPROCESSED_PATH": str(tmp_path),
        "CM_DATASET_CRITEO_GROUPS": "",
        "CM_DATASET_CRITEO_MULTIHOT": "no",
        "CM_CRITEO_PART": "validation",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
    }
    with pytest.raises(Error, match=r"lacks terabyte_processed_test\.bin"):
        customize.real(env)
    (tmp_path / "terabyte_processed_test.bin").write_bytes(b"")
    words, files = customize.real(env)
    assert words[3].startswith("39884406,39043,")
    assert files == [words[1]] == [str(tmp_path / "terabyte_processed_test.bin")]
    with pytest.raises(Error, match=r"lacks day_23_dense\.npy"):
        customize.real({**env, "CM_DATASET_CRITEO_MULTIHOT": "yes"})


# ---------------------------------------------------------------- calibration


def test_the_tiny_clicks_for_calibration_are_others_than_those_that_are_judged() -> None:
    judged, calibration = forms.clicks("v1"), forms.clicks("v1", "calibration")
    facts = json.loads((calibration / "dataset.json").read_text())
    assert (facts["count"], facts["pairs"], facts["largest_group"]) == (128, 12_800, 100)
    assert "qsl_count" not in facts
    rows = [{row.tobytes() for row in np.load(f / "dense.npy")} for f in (judged, calibration)]
    assert len(rows[0] & rows[1]) < 0.01 * len(rows[1])


def test_pairs_of_the_second_half_are_taken_by_their_number(tmp_path: Path) -> None:
    values = mlcommons_arrays(tmp_path, 20)
    out = tmp_path / "out"
    out.mkdir()
    words = ["--arrays", str(tmp_path), "--part", "10,5", "--group-size", "2", "--name", "criteo"]
    assert preprocess.main([*words, "--out", str(out)]) == 0
    expected = np.concatenate([value[10:15] for value in values], axis=1)
    np.testing.assert_array_equal(np.load(out / "indices.npy"), expected)
    for name in ("dense", "labels"):
        whole = np.load(tmp_path / f"day_23_{name}.npy")
        np.testing.assert_array_equal(np.load(out / f"{name}.npy"), whole[10:15].squeeze())
    assert np.load(out / "offsets.npy").tolist() == [0, 2, 4, 5]
    facts = json.loads((out / "dataset.json").read_text())
    assert (facts["groups"], facts["part"]) == ("2 pairs", [10, 5])


def test_the_file_of_the_second_half_gives_its_first_pairs(tmp_path: Path) -> None:
    path = tmp_path / "terabyte_processed_val.bin"
    table = binary(path, 30)
    preprocess.from_binary(
        path, [3] * 26, preprocess.PairSelection(part=(0, 20), size=10), tmp_path
    )
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), table[:20, 14:])
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), table[:20, 0])
    assert np.load(tmp_path / "offsets.npy").tolist() == [0, 10, 20]


def test_a_day_that_ends_before_the_calibration_pairs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mlcommons_arrays(tmp_path, 20)
    words = ["--arrays", str(tmp_path), "--part", "15,8", "--name", "criteo"]
    assert preprocess.main([*words, "--out", str(tmp_path)]) == 1
    told = f"{tmp_path} has 20 pairs, it lacks those from 20 to 22, counted from 0"
    assert told in capsys.readouterr().err
    assert not (tmp_path / "dataset.json").exists()


def test_the_full_form_calibrates_with_the_pairs_of_the_rules(tmp_path: Path) -> None:
    env = {
        "CM_CRITEO_PREPROCESSED_PATH": str(tmp_path),
        "CM_DATASET_CRITEO_GROUPS": str(tmp_path / "trace of what is judged"),
        "CM_DATASET_CRITEO_MULTIHOT": "yes",
        "CM_CRITEO_PART": "calibration",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
    }
    mlcommons_arrays(tmp_path, 4)
    words, files = customize.real(env)
    assert words[2:] == ["--part", "89137319,128000", "--group-size", "1000"]
    assert len(files) == 3
    env["CM_DATASET_CRITEO_MULTIHOT"] = "no"
    with pytest.raises(Error, match=r"lacks terabyte_processed_val\.bin"):
        customize.real(env)
    (tmp_path / "terabyte_processed_val.bin").write_bytes(b"")
    words, files = customize.real(env)
    assert words[4:] == ["--part", "0,128000", "--group-size", "1000"]
    assert files == [str(tmp_path / "terabyte_processed_val.bin")]


def test_noise_for_calibration_is_other_noise(tmp_path: Path) -> None:
    env = {
        "CM_DATASET_CRITEO_MULTIHOT": "no",
        "CM_DATASET_CRITEO_QSL": "330067",
        "CM_DLRM_MOST_ROWS": "50",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
    }
    words = {
        part: customize.synthetic({**env, "CM_CRITEO_PART": part}) for part in customize.BINARY
    }
    assert words["calibration"][-6:] == ["--seed", "8", "--groups", "128", "--qsl-count", "0"]
    assert words["validation"][-2:] == ["--qsl-count", "330067"]
    assert "--seed" not in words["validation"]
