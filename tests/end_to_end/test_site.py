"""The documentation as a site: every link holds, and no page asks another server for anything."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from browser_lab import browser
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


def test_decisions_come_last_in_the_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    boosts = {entry["location"].partition("#")[0]: entry.get("boost", 1) for entry in index["docs"]}
    decisions = [page for page in boosts if page.startswith("docs/decisions/")]
    assert decisions
    assert {boosts[page] for page in decisions} == {0.05}
    assert boosts["docs/how-to/own-model.html"] == 1


def test_pages_break_no_flag_and_have_no_fault_of_access(site: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    pages = ("index.html", "docs/how-to/benchmark-my-machine.html")
    pages += ("docs/reference/submission-checks.html",)
    broken = """() => [...document.querySelectorAll('.md-content code .whole')]
        .filter((word) => word.getClientRects().length > 1).map((word) => word.textContent)"""
    with browser() as chromium:
        for name, width in itertools.product(pages, (390, 768, 1440)):
            page = chromium.new_page(viewport={"width": width, "height": 900})
            page.goto((site / name).as_uri())
            page.wait_for_timeout(200)
            assert page.evaluate(broken) == [], (name, width)
            found = axe.Axe().run(page).response["violations"]
            faults = [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
            assert faults == [], (name, width)
            page.close()


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
