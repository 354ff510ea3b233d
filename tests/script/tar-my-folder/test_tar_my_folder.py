"""Packing a folder: everything in it, the same bytes again."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from support import Home


def test_the_command(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "empty").mkdir(parents=True)
    (folder / "a.txt").write_text("a\n", encoding="utf-8")
    (folder / "run.sh").write_text("echo\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    words = ("run", "script", "--tags=run,tar", f"--input_dir={folder}", "--quiet")
    done = home.cm(*words, f"--output_dir={tmp_path}/out").ok()
    assert f"packed: {tmp_path}/out/mine.tar.gz (4 files)" in done.stdout
    os.utime(folder / "a.txt", (1, 1))
    home.cm(*words, f"--outfile={tmp_path}/again.tar.gz").ok()
    first = tmp_path / "out/mine.tar.gz"
    assert first.read_bytes() == (tmp_path / "again.tar.gz").read_bytes()
    with tarfile.open(first) as archive:
        archive.extractall(tmp_path / "back", filter="data")
    back = tmp_path / "back/mine"
    assert (back / "empty").is_dir()
    assert os.readlink(back / "link") == "a.txt"
    assert os.access(back / "run.sh", os.X_OK)


def test_what_is_refused(home: Home, tmp_path: Path) -> None:
    for words, said in (
        ((), "no folder is named"),
        ((f"--input_dir={tmp_path}/none",), "there is no folder"),
        ((f"--input_dir={tmp_path}", f"--outfile={tmp_path}/x.tar.gz"), "lies in the folder"),
        ((f"--input_dir={tmp_path}", "--outfile=x.zip"), "ends with .tar.gz"),
    ):
        done = home.cm("run", "script", "--tags=run,tar", "--quiet", *words)
        assert done.status
        assert said in done.stdout + done.stderr
