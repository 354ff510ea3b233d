"""A site of its own home, and a client that was let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cmbench_gui.server import create_app
from cmbench_gui.site import Site
from shared_files import seed_index
from support import LONG_S, ROOT, Home

QUICK = 'echo "all is well"; echo "warning: a thing to see"'
# One that does not want to end, one that has left the group and the session.
LONG = f"""
trap '' TERM
setsid sleep {LONG_S} &
echo begun
sleep {LONG_S}
sleep {LONG_S}
"""
FAR = """
echo '{"label": "fetching", "done": 30, "total": 120, "unit": "B"}' > "$CM_PROGRESS_FILE.new"
mv "$CM_PROGRESS_FILE.new" "$CM_PROGRESS_FILE"
until [ -e "$CM_HOLD" ]; do sleep 0.05; done
"""
PICKS = """input_mapping: {speed: SPEED}
input_description: {speed: {desc: how fast, choices: [slow, fast]}}
variations:
  here: {group: place, default: true}
  lost: {group: place, deps: [{tags: "nowhere,to,be,found"}]}
"""
SCRIPTS = {
    "quick": ("", QUICK),
    "fails": ("deps: [{tags: is-quick}]\n", "echo broken >&2; exit 3"),
    "long": ("", LONG),
    "far": ("input_mapping: {hold: CM_HOLD}\n", FAR),
    "picks": (PICKS, "echo picked"),
}
"""What a meta has beside its names, and the native script."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "CM"), b"k" * 32, (str(ROOT),), folder=str(tmp_path))


@pytest.fixture
def unauthenticated(site: Site) -> Iterator[TestClient]:
    """A client that has the address of the site and nothing else."""
    base = f"http://127.0.0.1:{site.port}"
    with TestClient(create_app(site), base, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(unauthenticated: TestClient, site: Site) -> TestClient:
    unauthenticated.get(f"/enter/{site.key.hex()}")
    return unauthenticated


@pytest.fixture
def lab_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A home with a few scripts that need nothing."""
    for number, (name, (more, text)) in enumerate(SCRIPTS.items(), 1):
        folder = tmp_path / "repo" / "script" / name
        folder.mkdir(parents=True)
        (folder / "meta.yaml").write_text(
            f"alias: {name}\nuid: {number:016}\ntags: [is-{name}, test]\n{more}"
            "automation_alias: script\nautomation_uid: 5b4e0237da074764\n"
        )
        (folder / "run.sh").write_text(text)
    (tmp_path / "repo" / "cmr.yaml").write_text("alias: jobs-lab\nuid: 1234567890abcdef\n")
    home = Home(tmp_path)
    home.register(ROOT, tmp_path / "repo")
    seed_index(home.cm_repos)
    for key, value in home.environment().items():
        monkeypatch.setenv(key, value)
    return Site(str(home.cm_repos), b"k" * 32, folder=str(tmp_path))
