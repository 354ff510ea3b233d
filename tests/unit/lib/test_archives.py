"""Archives: everything inside is unpacked, nothing gets out, nothing is left half-made."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmbench.errors import Error
from cmbench.lib.archives import extract, kind_of, private_folder
from support import wait_for

needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="no program zstd here")
needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def member(name: str, data: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as packed:  # type: ignore[call-overload]
        for info, data in members:
            packed.addfile(info, io.BytesIO(data))
    return path


def folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=mode)


def link(name: str, to: str, hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE if hard else tarfile.SYMTYPE, linkname=to)


def tree(root: Path) -> dict[str, object]:
    """Every file (its bytes), link (its target) and empty folder below ``root``."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = None
    return found


GOOD = [
    folder("top"),
    member("top/bin/tool", b"#!/bin/sh\n", mode=0o755),
    member("top/data", b"x" * 3_000_000),
    link("top/lib", "bin"),
    link("top/lib/tool2", "top/data", hard=True),
    folder("top/empty"),
]
GOOD_TREE = {
    "top/bin/tool": b"#!/bin/sh\n",
    "top/bin/tool2": b"x" * 3_000_000,
    "top/data": b"x" * 3_000_000,
    "top/empty": None,
    "top/lib": "-> bin",
}


@pytest.mark.parametrize(
    "suffix", ["", ".gz", ".bz2", ".xz", pytest.param(".zst", marks=needs_zstd)]
)
def test_tar_in_every_compression(tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"some name.tar{suffix}"
    if suffix == ".zst":
        plain = tar(tmp_path / "plain.tar", *GOOD)
        subprocess.run(["zstd", "-q", plain, "-o", archive], check=True)
        plain.unlink()
    else:
        tar(archive, *GOOD, mode=f"w:{suffix.lstrip('.')}")
    # The name plays no role: what is inside decides.
    archive = archive.rename(tmp_path / "download?id=7")
    seen: list[tuple[int, int | None]] = []
    done = extract(archive, tmp_path / "out", progress=lambda *now: seen.append(now))
    assert tree(tmp_path / "out") == GOOD_TREE
    assert (done.files, done.size) == (4, 3_000_010)
    assert stat.S_IMODE((tmp_path / "out/top/bin/tool").stat().st_mode) == 0o755
    assert sorted(p.name for p in tmp_path.iterdir()) == ["download?id=7", "out"]
    if suffix != ".zst":
        assert seen[-1] == (archive.stat().st_size, archive.stat().st_size)
        assert [now for now, _ in seen] == sorted(now for now, _ in seen)


def test_zip(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("top/a.txt", "a" * 100_000)
        packed.writestr("top/empty/", "")
        tool = zipfile.ZipInfo("top/tool")
        tool.external_attr = (stat.S_IFREG | 0o4777) << 16
        packed.writestr(tool, "#!/bin/sh\n")
        to = zipfile.ZipInfo("top/link")
        to.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(to, "a.txt")
    seen: list[tuple[int, int | None]] = []
    extract(archive, tmp_path / "out", progress=lambda *now: seen.append(now))
    assert tree(tmp_path / "out") == {
        "top/a.txt": b"a" * 100_000,
        "top/empty": None,
        "top/link": "-> a.txt",
        "top/tool": b"#!/bin/sh\n",
    }
    mode = stat.S_IMODE((tmp_path / "out/top/tool").stat().st_mode)
    assert mode == 0o755, "neither set-user nor write for others"
    assert seen[-1][0] == 100_010


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("size", [0, 100, 2_000_000])
def test_single_file(tmp_path: Path, kind: str, size: int) -> None:
    archive = tmp_path / f"captions.json.{kind}"
    archive.write_bytes(COMPRESS[kind](b"z" * size))
    extract(archive, tmp_path / "out")
    assert tree(tmp_path / "out") == {"captions.json": b"z" * size}
    extract(archive, tmp_path / "out", single_name="other.json")
    assert (tmp_path / "out/other.json").stat().st_size == size


def test_a_file_of_gigabytes_needs_no_memory(tmp_path: Path) -> None:
    archive = tmp_path / "big.gz"
    with gzip.open(archive, "wb", compresslevel=1) as out:
        for _ in range(64):
            out.write(b"\0" * (1 << 20))
    worker = multiprocessing.get_context("fork").Process(
        target=_extract_in_little_memory, args=(archive, tmp_path / "out")
    )
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert (tmp_path / "out/big").stat().st_size == 64 << 20


def _extract_in_little_memory(archive: Path, target: Path) -> None:
    import resource

    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + (32 << 20), now + (32 << 20)))
    extract(archive, target)


def test_an_only_folder_can_be_left_out(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar", *GOOD)
    extract(archive, tmp_path / "out", strip_folder=True)
    assert tree(tmp_path / "out") == {k.removeprefix("top/"): v for k, v in GOOD_TREE.items()}
    two = tar(tmp_path / "b.tar", member("a/x", b"1"), member("y", b"2"))
    extract(two, tmp_path / "two", strip_folder=True)
    assert tree(tmp_path / "two") == {"a/x": b"1", "y": b"2"}


def test_what_is_there_is_kept_or_replaced_but_never_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "top/bin").mkdir(parents=True)
    (out / "top/bin/mine").write_bytes(b"mine")
    (out / "top/data").write_bytes(b"old")
    inode = out.stat().st_ino
    extract(tar(tmp_path / "a.tar", *GOOD), out)
    assert tree(out) == {**GOOD_TREE, "top/bin/mine": b"mine"}
    assert out.stat().st_ino == inode, "it may be the current directory of a process"


def test_a_folder_does_not_give_way_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "out/top/data").mkdir(parents=True)
    (tmp_path / "out/top/data/mine").write_bytes(b"mine")
    with pytest.raises(Error, match="a folder of that name"):
        extract(tar(tmp_path / "a.tar", member("top/data", b"new")), tmp_path / "out")
    assert tree(tmp_path / "out") == {"top/data/mine": b"mine"}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Error, match="a file of that name"):
        extract(tar(tmp_path / "b.tar", member("x", b"new")), tmp_path / "file")


def test_members_may_come_twice_and_in_any_order(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar",
        member("./d/f", b"one"),
        folder("d", mode=0o555),
        member("d/g", b"two"),
        member("d/f", b"three"),
        link("l", "d/f"),
        member("l", b"no link any more"),
        member("sub", b"was a file"),
        folder("sub"),
        member("sub/x", b"in it"),
        folder("."),
    )
    extract(archive, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "d/f": b"three",
        "d/g": b"two",
        "l": b"no link any more",
        "sub/x": b"in it",
    }
    assert stat.S_IMODE((tmp_path / "out/d").stat().st_mode) == 0o755


EVIL = {
    "dotdot": [member("../evil", b"x")],
    "dotdot in the middle": [member("a/../../evil", b"x")],
    "absolute": [member("/tmp/cmbench-evil", b"x")],
    "absolute link": [link("l", "/etc/passwd")],
    "link out": [link("l", "../../evil")],
    "link out from a folder": [folder("a"), link("a/l", "../../evil")],
    "write through a link to a folder": [link("l", ".."), member("l/evil", b"x")],
    "hard link out": [link("l", "../evil", hard=True)],
    "hard link to nothing": [link("l", "missing", hard=True)],
    "hard link to a link": [member("f", b""), link("s", "f"), link("h", "s", hard=True)],
    "link made to point out later": [
        folder("a"),
        folder("a/b"),
        link("out", "a/b/../.."),  # inside ...
        member("a/b", type=tarfile.SYMTYPE, linkname="../x"),
    ],
    "link by the name of a private folder": [member("f", b"x"), link("l", "../content/f")],
    "link through links": [
        folder("a"),
        link("a/up", "."),
        link("deep", "a/up/up/../.."),
    ],
    "device": [member("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block device": [member("dev", type=tarfile.BLKTYPE)],
    "pipe": [member("pipe", type=tarfile.FIFOTYPE)],
    "NUL": [member("a\0b", b"x", type=tarfile.REGTYPE)],
    "no name": [member("./", b"x", type=tarfile.REGTYPE)],
    "too long": [member("a/" * 2000 + "f", b"x")],
    "file as a folder": [member("f", b"x"), member("f/g", b"y")],
}


@pytest.mark.parametrize("name", EVIL)
def test_an_archive_cannot_write_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "evil").write_bytes(b"before")
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
        for info, data in EVIL[name]:
            packed.addfile(info, io.BytesIO(data))
    if name == "NUL":  # A NUL ends the name for tar itself: nothing to refuse.
        extract(archive, tmp_path / "box/out")
        assert set(tree(tmp_path / "box/out")) <= {"a", "a\0b"}
        return
    with pytest.raises(Error) as caught:
        extract(archive, tmp_path / "box/out")
    assert caught.value.code == "archive-unsafe"
    bad = EVIL[name][-1][0].name.rstrip("/")
    assert f'member "{bad}"' in caught.value.message or "evil.tar" in caught.value.message
    assert not (tmp_path / "box/out").exists()
    assert list((tmp_path / "box").iterdir()) == []
    assert (tmp_path / "evil").read_bytes() == b"before"
    assert not Path("/tmp/cmbench-evil").exists()


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("to", ["../secret", "..", "a/../../secret", "../top/data"])
def test_a_link_that_points_out_once_the_folder_is_left_out(
    tmp_path: Path, kind: str, to: str
) -> None:
    """Inside of the archive it points to a place beside ``top``; that is the user's then."""
    archive = tmp_path / f"a.{kind}"
    if kind == "tar":
        tar(archive, folder("top"), folder("top/a"), member("top/data", b"x"), link("top/l", to))
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("top/a/", "")
            packed.writestr("top/data", "x")
            info = zipfile.ZipInfo("top/l")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            packed.writestr(info, to)
    extract(archive, tmp_path / "whole")
    with pytest.raises(Error) as caught:
        extract(archive, tmp_path / "box/out", strip_folder=True)
    assert caught.value.code == "archive-unsafe"
    assert f'member "top/l" was refused: it is a link to "{to}"' in caught.value.message
    assert list((tmp_path / "box").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "mode", "data"),
    [
        ("../evil", stat.S_IFREG, b"x"),
        ("/etc/evil", stat.S_IFREG, b"x"),
        ("l", stat.S_IFLNK, b"../../evil"),
        ("fifo", stat.S_IFIFO, b""),
    ],
)
def test_a_zip_cannot_write_outside(tmp_path: Path, name: str, mode: int, data: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as packed:
        info = zipfile.ZipInfo(name)
        info.external_attr = (mode | 0o644) << 16
        packed.writestr(info, data)
    with pytest.raises(Error) as caught:
        extract(tmp_path / "evil.zip", tmp_path / "box/out")
    assert caught.value.code == "archive-unsafe"
    assert f'member "{name}"' in caught.value.message
    assert list((tmp_path / "box").iterdir()) == []


def test_the_message_reads_well(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        extract(tar(tmp_path / "e.tar", link("lib/x", "/etc")), tmp_path / "out")
    assert caught.value.render(width=300) == (
        'error [archive-unsafe]: e.tar: member "lib/x" was refused: it is a link to "/etc", outside'
        " of the folder\n"
        "  cause:\n"
        f"    archive: {tmp_path}/e.tar\n"
        "  next:   do not use this archive; get it again from where it is published"
    )


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "tar", "zip", "gz"])
@pytest.mark.parametrize("part", [0.3, 0.8, 0.999])
def test_a_cut_off_archive_is_noticed(tmp_path: Path, kind: str, part: float) -> None:
    archive = tmp_path / f"a.{kind}"
    noise = os.urandom(300_000)
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("noise", noise)
    elif kind == "gz":
        archive.write_bytes(gzip.compress(noise))
    else:
        tar(archive, member("noise", noise), mode="w:" + kind[4:])
    data = archive.read_bytes()
    if kind == "tar" and part > 0.9:
        pytest.skip("only the padding after the last member is gone")
    archive.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(Error) as caught:
        extract(archive, tmp_path / "box/out")
    assert caught.value.code == "archive-corrupt"
    assert str(archive) in caught.value.message
    assert caught.value.hint == f"remove it and get it again: rm {archive}"
    assert list((tmp_path / "box").iterdir()) == []


@needs_zstd
def test_a_cut_off_zstd_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(300_000))
    subprocess.run(["zstd", "-q", tmp_path / "noise"], check=True)
    archive = tmp_path / "noise.zst"
    archive.write_bytes(archive.read_bytes()[:200_000])
    with pytest.raises(Error) as caught:
        extract(archive, tmp_path / "out")
    assert caught.value.code == "archive-corrupt"


def test_without_the_program_zstd_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"0" * 20)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Error) as caught:
        extract(tmp_path / "a.zst", tmp_path / "out")
    assert caught.value.code == "tool-missing"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["tar", "tar.gz", "tar.xz", "zip"]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_bytes_give_an_error_or_files_inside(
    tmp_path: Path, kind: str, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(_small_archive(kind))
    for place, value in changes:
        data[place % len(data)] = value
    box = tmp_path / f"box{time.monotonic_ns()}"
    box.mkdir()
    (box / "archive").write_bytes(data)
    expected = ["archive"]
    with contextlib.suppress(Error):  # Any other exception is a fault.
        extract(box / "archive", box / "out")
        expected.append("out")
    assert sorted(p.name for p in box.iterdir()) == expected
    shutil.rmtree(box)


def _small_archive(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a/b.txt", "text" * 50)
            packed.writestr("c", bytes(range(256)))
    else:
        with tarfile.open(fileobj=out, mode="w:" + kind[4:]) as tarred:  # type: ignore[call-overload]
            for info, data in (member("a/b", b"text" * 50), link("l", "a/b"), folder("d")):
                tarred.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("f", b"", ""),
        ("f", b"hello", ""),
        ("none.tar", b"\0" * 10240, "tar"),
        ("zeros.bin", b"\0" * 10240, ""),
        ("short.tar", b"\0" * 100, ""),
        ("none", b"PK\5\6" + b"\0" * 18, "zip"),
    ],
)
def test_kinds(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert kind_of(tmp_path / name) == kind
    if kind:
        extract(tmp_path / name, tmp_path / "out")
        assert tree(tmp_path / "out") == {}


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.zip").write_bytes(b"<html>please log in</html>")
    with pytest.raises(Error) as caught:
        extract(tmp_path / "page.zip", tmp_path / "out")
    assert caught.value.code == "archive-unknown"
    assert "please log in" in caught.value.context[0]
    with pytest.raises(Error) as caught:
        extract(tmp_path / "missing.zip", tmp_path / "out")
    assert caught.value.code == "file-not-found"
    assert "missing.zip does not exist" in caught.value.message


def test_an_encrypted_zip_is_named(tmp_path: Path) -> None:
    data = bytearray(_small_archive("zip"))
    # Bit 0 of the flags, in the local headers and in the directory.
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(mark, place + 4)
    (tmp_path / "e.zip").write_bytes(data)
    with pytest.raises(Error) as caught:
        extract(tmp_path / "e.zip", tmp_path / "out")
    assert caught.value.code == "archive-encrypted"


def test_a_zip_that_cannot_fit_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.zip").write_bytes(_small_archive("zip"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1))  # type: ignore[attr-defined]
    with pytest.raises(Error) as caught:
        extract(tmp_path / "a.zip", tmp_path / "out")
    assert caught.value.code == "no-space"
    assert caught.value.context == ("1 B free, 456 B needed",)


@needs_user
def test_a_place_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir(mode=0o555)
    with pytest.raises(Error) as caught:
        extract(tar(tmp_path / "a.tar", *GOOD), tmp_path / "box/out")
    assert caught.value.code == "not-writable"


def test_a_killed_extraction_leaves_nothing_at_the_place(tmp_path: Path) -> None:
    archive = tmp_path / "big.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for number in range(400):
            info, data = member(f"f{number}", b"\0" * 500_000)
            packed.addfile(info, io.BytesIO(data))
    box = tmp_path / "box"
    worker = multiprocessing.get_context("fork").Process(
        target=extract, args=(archive, box / "out")
    )
    worker.start()
    wait_for(lambda: any(box.glob(".out.partial-*/content/f1")))
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert not (box / "out").exists()
    left = list(box.iterdir())
    assert len(left) == 1
    assert left[0].name.startswith(".out.partial-")
    extract(tar(tmp_path / "a.tar", *GOOD), box / "out")
    assert [p.name for p in box.iterdir()] == ["out"], "the next run sweeps what a dead one left"


def test_a_living_run_is_not_swept(tmp_path: Path) -> None:
    with private_folder(tmp_path / "out") as mine:
        (mine / "content").mkdir()
        extract(tar(tmp_path / "a.tar", *GOOD), tmp_path / "out")
        assert (mine / "content").is_dir()
    assert not mine.exists()


@pytest.mark.parametrize("depth", [251, 1500, 2500])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_folders_too_deep_are_one_short_error(tmp_path: Path, depth: int, kind: str) -> None:
    archive, name = tmp_path / "a", "d/" * depth + "f"
    if kind == "tar":
        with tarfile.open(archive, "w") as tar:
            tar.addfile(tarfile.TarInfo(name))
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr(name, b"")
    with pytest.raises(Error) as caught:
        extract(archive, tmp_path / "out")
    assert caught.value.code == "archive-unsafe"
    assert len(caught.value.render()) < 1000
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
