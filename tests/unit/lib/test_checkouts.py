"""What git says of a checkout."""

from __future__ import annotations

from pathlib import Path

from cmbench.lib import checkouts
from support import run


def test_the_revision_shows_changes(tmp_path: Path) -> None:
    assert checkouts.revision(str(tmp_path / "none")) == ("", "")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "a").write_text("1")
    run([*git, "init", "-q"]).ok()
    run([*git, "add", "a"]).ok()
    run([*git, "commit", "-q", "-m", "m"]).ok()
    run([*git, "remote", "add", "origin", "https://example.org/r.git"]).ok()
    repository, revision = checkouts.revision(str(tmp_path))
    assert repository == "https://example.org/r.git"
    assert len(revision) == 40
    (tmp_path / "a").write_text("2")
    assert checkouts.revision(str(tmp_path))[1] == f"{revision}+changes"
