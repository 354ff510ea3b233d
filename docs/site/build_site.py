"""The documentation as a site: docs/, the page of each script, and the README, with a search.

    make docs

The pages are laid out as they are in the repository, so that their links to each other hold, and
``mkdocs build --strict`` fails for one that does not. The site asks no other server for anything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# The README is not the first page of the site.
START = "start.md"
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
LAST_IN_SEARCH = "---\nsearch:\n  boost: 0.05\n---\n\n"
Nav = list[dict[str, Any]]


def main() -> int:
    """Build the site; the exit status is that of MkDocs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out.resolve()
    pages = out.with_name(out.name + "-pages")
    shutil.rmtree(pages, ignore_errors=True)
    lay_out(pages)
    out.parent.mkdir(parents=True, exist_ok=True)
    config = out.with_name(out.name + ".yml")
    config.write_text(configuration(pages, out), encoding="utf-8")
    status = build(config)
    if status == 0:
        print(f"{out}/index.html: {len(list(out.rglob('*.html')))} pages; with the search:")
        print(f"  {sys.executable} -m http.server --bind 127.0.0.1 --directory {out} 8000")
    return status


def build(config: Path) -> int:
    """Run MkDocs and show its warnings, each of which is an error; its exit status."""
    # Not --quiet: it keeps warnings from --strict too.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    # Its own notice about another project is no fault of ours.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, check=False, env=env, stderr=subprocess.PIPE, text=True)
    for line in done.stderr.splitlines():
        if not line.startswith("INFO"):
            print(line, file=sys.stderr)
    return done.returncode


def lay_out(pages: Path) -> None:
    """Copy every page to its place below ``pages``."""
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("script/*/README.md"))]:
        if HERE not in path.parents:
            _copy(path, pages / path.relative_to(ROOT))
    for name in PAGES:
        _copy(ROOT / name, pages / name)
    _copy(ROOT / "README.md", pages / START)
    _copy(HERE / "home.md", pages / "index.md")
    (pages / "docs" / "decisions" / "index.md").write_text(decisions(), encoding="utf-8")
    for path in (pages / "docs" / "decisions").glob("*.md"):
        # Reasons come after what a reader can do.
        path.write_text(LAST_IN_SEARCH + path.read_text(encoding="utf-8"), encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.ipynb"):
        shutil.copy(path, pages / path.relative_to(ROOT))
    for name in ("site.css", "site.js"):
        shutil.copy(HERE / name, pages / name)
    shutil.copytree(HERE / "pictures", pages / "pictures")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        text = linked(text, source.relative_to(ROOT).parent)
    target.write_text(text, encoding="utf-8")


def linked(text: str, folder: Path) -> str:
    """The links of a page of ``folder`` as the site has their targets."""
    up = "../" * len(folder.parts)
    text = text.replace(f"]({up}README.md", f"]({up}{START}").replace(
        "](decisions/)", "](decisions/index.md)"
    )
    return text.replace("](docs/site/pictures/", "](pictures/")


def decisions() -> str:
    """The list of decisions."""
    lines = [f"- [{title(path)}]({path.name})" for path in _decisions()]
    return "\n".join(["# Decisions", "", "Why things are as they are.", "", *lines, ""])


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def title(path: Path) -> str:
    """The heading of a page."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else path.stem


def configuration(pages: Path, out: Path) -> str:
    """The settings of MkDocs with the places and the navigation."""
    settings = yaml.safe_load((HERE / "mkdocs.yml").read_text(encoding="utf-8"))
    nav = list(navigation(pages))
    return yaml.safe_dump({**settings, "docs_dir": str(pages), "site_dir": str(out), "nav": nav})


def navigation(pages: Path) -> Iterator[dict[str, Any]]:
    """The parts of the site in the order of a reader's needs."""
    yield {"Home": "index.md"}
    yield {
        "Start": [
            {"Get started": START},
            {"Your first script": "docs/tutorial.md"},
            {"All pages": "docs/index.md"},
        ]
    }
    for name in ("How-to guides", "Reference"):
        yield {name: listed(name, pages / "docs")}
    scripts = sorted(pages.glob("script/*/README.md"))
    yield {"Scripts": [{path.parent.name: str(path.relative_to(pages))} for path in scripts]}
    yield {
        "Project": [
            {"Contributing": "CONTRIBUTING.md"},
            {"Changelog": "CHANGELOG.md"},
            {
                "Decisions": [
                    "docs/decisions/index.md",
                    *(f"docs/decisions/{p.name}" for p in _decisions()),
                ]
            },
        ]
    }


def listed(section: str, docs: Path) -> Nav:
    """The pages of one section of docs/index.md in its order, below its headings in bold."""
    text = (docs / "index.md").read_text(encoding="utf-8").partition(f"## {section}\n")[2]
    found: Nav = []
    pages = found
    for heading, name in re.findall(
        r"(?m)^\*\*(.+)\*\*$|^- \[[^\]]+\]\(([^)]+)", text.split("\n## ")[0]
    ):
        if heading:
            pages = []
            found.append({heading: pages})
        else:
            pages.append({title(docs / name): f"docs/{name}"})
    return found


if __name__ == "__main__":
    sys.exit(main())
