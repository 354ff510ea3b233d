"""Preprocessing: the reference's geometry and values, at any size."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import benchmark_lab as lab
from support import Finished, run, wait_for

program = lab.module_of(lab.PREPROCESS)
customize = lab.module_of(lab.SCRIPT / "get-preprocessed-dataset-imagenet" / "customize.py")


def picture(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    pixels = np.stack([across, down, np.full_like(across, 7)], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8), "RGB")


@given(st.integers(28, 900), st.integers(28, 900), st.sampled_from([28, 224]))
def test_the_crop_is_87_and_a_half_percent_of_the_short_side(
    width: int, height: int, side: int
) -> None:
    size = program.resized_size(width, height, side)
    assert min(size) == {28: 32, 224: 256}[side]
    assert max(size) == pytest.approx(min(size) * max(width, height) / min(width, height), abs=1)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (100, 90), (32, 32)])
def test_a_sample_has_the_model_s_shape_and_centre(size: tuple[int, int]) -> None:
    sample = program.preprocess(picture(*size), 28)
    assert (sample.shape, sample.dtype) == ((3, 28, 28), np.float32)
    means = np.asarray(program.MEANS)[:, None, None]
    middle = (sample + means)[:2, 13:15, 13:15].mean(axis=(1, 2))
    np.testing.assert_allclose(middle, [127.5, 127.5], atol=6)
    assert (sample + means)[2].mean() == pytest.approx(7, abs=0.01)


def test_pixels_that_need_no_resizing_are_untouched() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    sample = program.preprocess(Image.fromarray(pixels, "RGB"), 28)
    expected = pixels[2:30, 2:30].astype(np.float32) - np.asarray(program.MEANS, np.float32)
    np.testing.assert_array_equal(sample, expected.transpose(2, 0, 1))


def test_grey_and_transparent_images_become_rgb() -> None:
    for mode in ("L", "RGBA", "P"):
        assert program.preprocess(picture(40, 40).convert(mode), 28).shape == (3, 28, 28)


def test_the_arrays_of_the_digits_are_as_their_facts_say() -> None:
    folder = lab.arrays()
    facts = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    samples, labels = np.load(folder / "samples.npy"), np.load(folder / "labels.npy")
    assert samples.shape == (facts["count"], *facts["sample_shape"]) == (540, 3, 28, 28)
    assert (samples.dtype, labels.dtype) == (np.float32, np.int64)
    assert set(labels) == set(range(10))
    for name, about in facts["files"].items():
        data = (folder / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (about["bytes"], about["sha256"])


def test_the_training_part_shares_no_image_with_the_held_out_part() -> None:
    parts = [np.load(lab.arrays(part) / "samples.npy") for part in ("train", "val")]
    train, held_out = ({sample.tobytes() for sample in part} for part in parts)
    assert not train & held_out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png 1\nb.png\n", 'map.txt:2: expected "file label", found "b.png"'),
        ("a.png one\n", 'map.txt:1: expected "file label"'),
        ("\n\n", "map.txt lists no images"),
        ("a.png 1\n", "a.png cannot be read as an image"),
    ],
)
def test_unusable_lists_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "map.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.png").write_bytes(b"no picture")
    words = ["--map", str(tmp_path / "map.txt"), "--side", "28", "--name", "x"]
    assert program.main([*words, "--out", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "dataset.json").exists()


@pytest.mark.parametrize(
    ("part", "listed", "key"),
    [
        ("validation", "/val/val_map.txt", "CM_DATASET_PREPROCESSED_PATH"),
        ("training", "/train/train_map.txt", "CM_DATASET_PREPROCESSED_TRAINING_PATH"),
    ],
)
def test_customize_chooses_the_part(
    monkeypatch: pytest.MonkeyPatch, part: str, listed: str, key: str
) -> None:
    env: dict[str, Any] = {
        "CM_DATASET_FORM": "tiny",
        "CM_DATASET_TYPE": part,
        "CM_DATASET_PATH": "/val",
        "CM_DATASET_TRAIN_PATH": "/train",
    }
    monkeypatch.chdir(lab.arrays())
    assert customize.preprocess({"env": env})["relies_on"] == [listed]
    assert env["CM_DATASET_IMAGES_MAP"] == listed
    customize.postprocess({"env": env})
    assert env[key] == str(lab.arrays().resolve())


def full_env(**more: str) -> dict[str, Any]:
    return {
        "CM_DATASET_AUX_LABELS_FILE_WITH_PATH": "/aux/val.txt",
        "CM_DATASET_IMAGENET_VAL_PATH": "/imagenet/val",
        "CM_DATASET_TYPE": "validation",
        "CM_MLPERF_IMAGENET_CALIBRATION_LIST_FILE_WITH_PATH": "/cal/list.txt",
        **more,
    }


def test_the_full_set_takes_the_labels_of_the_archive_and_its_first_images() -> None:
    env = full_env(CM_IMAGENET_FIRST="500")
    assert customize.preprocess({"env": env})["relies_on"] == ["/imagenet/val"]
    chosen = {key: env[f"CM_DATASET_IMAGES_{key}"] for key in ("MAP", "FOLDER", "ONLY", "COUNT")}
    assert chosen == {"MAP": "/aux/val.txt", "FOLDER": "/imagenet/val", "ONLY": "", "COUNT": "500"}
    assert env["CM_DATASET_PREPROCESSED_OUT"] == str(Path.cwd())


def test_calibration_takes_the_images_of_the_list(tmp_path: Path) -> None:
    env = full_env(CM_DATASET_TYPE="training", CM_IMAGENET_STORE=str(tmp_path))
    customize.preprocess({"env": env})
    assert (env["CM_DATASET_IMAGES_ONLY"], env["CM_DATASET_IMAGES_COUNT"]) == ("/cal/list.txt", "")
    assert env["CM_DATASET_PREPROCESSED_OUT"] == str(tmp_path / "calibration")
    env["CM_IMAGENET_FIRST"] = "9"
    with pytest.raises(customize.Error, match=r"_size\.9 and _calibration contradict each other"):
        customize.preprocess({"env": env})


# ---------------------------------------------------------------- many images


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """70 JPEG files named as ImageNet's, in folders of two classes, and their labels."""
    rng = np.random.default_rng(3)
    for number in range(1, 71):
        folder = tmp_path / "images" / f"n0144{number % 2:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (30 + number, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"ILSVRC2012_val_{number:08d}.JPEG", quality=90)
    lines = [f"ILSVRC2012_val_{number:08d}.JPEG {number * 13 % 1000}" for number in range(1, 81)]
    (tmp_path / "val.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def started(folder: Path, *words: str) -> Finished:
    command = [sys.executable, str(lab.PREPROCESS), "--map", str(folder / "val.txt"), "--side=28"]
    images = ["--images", str(folder / "images"), "--name=imagenet", f"--out={folder / 'out'}"]
    return run([*command, *images, *words])


def test_several_processes_write_what_one_writes(photographs: Path) -> None:
    assert started(photographs, "--count=70", "--processes=2").ok().stdout.strip() == (
        "70 samples of 3 x 28 x 28 float32 written"
    )
    samples = np.load(photographs / "out" / "samples.npy")
    labels = np.load(photographs / "out" / "labels.npy")
    assert labels.tolist() == [number * 13 % 1000 for number in range(1, 71)]
    for row in (0, 31, 32, 69):
        name = f"n0144{(row + 1) % 2:04d}/ILSVRC2012_val_{row + 1:08d}.JPEG"
        alone = program.preprocess_file(photographs / "images" / name, 28)
        np.testing.assert_array_equal(samples[row], alone)
    told = json.loads((photographs / "out" / "dataset.json").read_text())
    assert (told["count"], told["names"][69]) == (70, "ILSVRC2012_val_00000070.JPEG")
    assert sorted(path.name for path in (photographs / "out").iterdir()) == [
        *("dataset.json", "labels.npy", "samples.npy")
    ]
    again = started(photographs, "--count=70").ok().stdout
    assert again.strip().endswith("are there already, whole and undamaged")
    with (photographs / "out" / "samples.npy").open("r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    assert started(photographs, "--count=70").ok().stdout.strip().endswith("float32 written")
    np.testing.assert_array_equal(np.load(photographs / "out" / "samples.npy"), samples)


def test_an_interrupted_run_is_gone_on_with(photographs: Path) -> None:
    broken = photographs / "images" / "n01440000" / "ILSVRC2012_val_00000066.JPEG"
    whole = broken.read_bytes()
    broken.write_bytes(b"?" * len(whole))
    first = started(photographs, "--count=70", "--processes=1")
    assert first.status == 1
    assert "ILSVRC2012_val_00000066.JPEG cannot be read as an image" in first.stderr
    assert not (photographs / "out" / "dataset.json").exists()
    broken.write_bytes(whole)
    second = started(photographs, "--count=70", "--processes=1").ok().stdout
    assert "70 samples of 3 x 28 x 28 float32 written, 64 of them by an earlier run" in second
    kept = np.load(photographs / "out" / "samples.npy")
    started(photographs, "--count=70", f"--out={photographs / 'other'}").ok()
    np.testing.assert_array_equal(kept, np.load(photographs / "other" / "samples.npy"))
    # Other images or another geometry begin anew.
    assert "earlier" not in started(photographs, "--count=69").ok().stdout


def test_calibration_images_come_in_the_order_of_their_list(photographs: Path) -> None:
    chosen = [40, 3, 17]
    lines = [f"ILSVRC2012_val_{number:08d}.JPEG {line}" for line, number in enumerate(chosen)]
    (photographs / "list.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    started(photographs, "--only", str(photographs / "list.txt")).ok()
    labels = np.load(photographs / "out" / "labels.npy")
    assert labels.tolist() == [number * 13 % 1000 for number in chosen]
    (photographs / "list.txt").write_text("cat.JPEG\n", encoding="utf-8")
    refused = started(photographs, "--only", str(photographs / "list.txt"))
    assert "list.txt names cat.JPEG, which has no label" in refused.stderr


def test_images_that_are_missing_are_counted_before_any_work(photographs: Path) -> None:
    refused = started(photographs)
    assert refused.status == 1
    assert "10 of 80 images are not in" in refused.stderr
    assert "ILSVRC2012_val_00000071.JPEG, " in refused.stderr
    assert "81 images are wanted, the list has 80" in started(photographs, "--count=81").stderr
    assert not list((photographs / "out").iterdir())


def test_a_full_disk_is_reported_before_any_work(photographs: Path, tmp_path: Path) -> None:
    arrays = lab.module_of(lab.PREPROCESS.parent / "arrays.py")
    with pytest.raises(arrays.ProgramError, match=r"150528\.0 GB are needed in"):
        arrays.fill(tmp_path, (3, 224, 224), range(250_000_000), lambda item: item, "x", 1)


def test_a_process_that_is_lost_is_reported(tmp_path: Path) -> None:
    arrays = lab.module_of(lab.PREPROCESS.parent / "arrays.py")
    with pytest.raises(arrays.ProgramError, match="the memory may have run out"):
        arrays.fill(tmp_path, (1,), [9] * 64, os._exit, "x", 2)
    assert (tmp_path / "samples.npy").stat().st_blocks * 512 >= 64 * 4, "its place is reserved"


def test_who_works_for_a_killed_process_ends_too(photographs: Path) -> None:
    command = [sys.executable, str(lab.PREPROCESS), "--map", str(photographs / "val.txt")]
    command += ["--images", str(photographs / "images"), "--name=x", "--side=224", "--count=70"]
    command += ["--processes=2", f"--out={photographs / 'out'}"]
    with subprocess.Popen(command, start_new_session=True) as process:
        wait_for(lambda: len(members(process.pid)) >= 4)
        process.kill()
    wait_for(lambda: not members(process.pid))


def members(session: int) -> list[str]:
    """The processes of a session that are not over yet."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if words[0] != "Z" and words[3] == str(session):
                found.append(path.parent.name)
    return found


def test_the_full_form_runs_through_the_engine(home: Any, photographs: Path) -> None:
    lines = [f"ILSVRC2012_val_{number:08d}.JPEG {number % 1000}" for number in range(1, 50001)]
    archive = photographs / "caffe_ilsvrc12.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        text = "\n".join(lines).encode()
        about = tarfile.TarInfo("val.txt")
        about.size = len(text)
        file.addfile(about, io.BytesIO(text))
    words = (
        *("run", "script", "--tags=get,preprocessed,dataset,imagenet,_size.8"),
        f"--imagenet_path={photographs / 'images'}",
        f"--store={photographs / 'store'}",
        f"--adr.imagenet-aux.env.CM_PACKAGE_URL={archive}",
        "--adr.imagenet-aux.env.CM_IMAGENET_AUX_CHECKSUM="
        + hashlib.md5(archive.read_bytes()).hexdigest(),
        *("--quiet", "--out=json"),
    )
    done = home.cm(*words).json
    assert done["return"] == 0, done
    env = done["new_env"]
    assert env["CM_DATASET_PREPROCESSED_PATH"] == str(photographs / "store" / "validation")
    assert (env["CM_DATASET_PREPROCESSED_FORM"], env["CM_DATASET_SIZE"]) == ("full", "8")
    samples = np.load(photographs / "store" / "validation" / "samples.npy")
    assert samples.shape == (8, 3, 224, 224)
    assert home.cm(*words).json["cached"]
    (photographs / "store" / "validation" / "samples.npy").unlink()
    assert not home.cm(*words).json["cached"], "arrays that are gone are made again"
