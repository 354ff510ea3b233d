"""The documentation as a site: every link holds, and no page asks another server for anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, copy_checkout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def build(checkout: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(checkout / "docs" / "site" / "build_site.py"), "--out", str(out)]
    return subprocess.run(words, capture_output=True, text=True)


def test_every_page_is_there_and_found_by_the_search(site: Path) -> None:
    scripts = {path.parent.name for path in ROOT.glob("script/*/README.md")}
    assert scripts == {path.parent.name for path in site.glob("script/*/index.html")}
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"index.html", "start.html", "docs/how-to/own-model.html"} <= found


def test_nothing_comes_from_another_server(site: Path) -> None:
    asked = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["'](?:https?:)?//""")
    styles = re.compile(
        r"""<link[^>]*rel=["'](?:stylesheet|preload|preconnect)[^>]*href=["']https?:"""
    )
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not asked.search(text), page
        assert not styles.search(text), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text(encoding="utf-8")), sheet


def test_pictures_are_recordings_that_are_shown(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    pictures = sorted((site / "pictures").glob("*.svg"))
    assert pictures
    for path in pictures:
        assert path.name in home
        assert "<text" in path.read_text(encoding="utf-8")


def test_a_broken_link_and_a_page_that_no_list_names_end_the_build(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    (checkout / "docs" / "how-to" / "unlisted.md").write_text("# Unlisted\n\n[gone](gone.md)\n")
    done = build(checkout, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "docs/how-to/unlisted.md" in done.stderr
