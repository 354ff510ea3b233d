"""A site of its own home, and a client that was let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cmbench_gui.server import create_app
from cmbench_gui.site import Site
from support import ROOT


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "CM"), b"k" * 32, (str(ROOT),), folder=str(tmp_path))


@pytest.fixture
def stranger(site: Site) -> Iterator[TestClient]:
    """A client that has the address of the site and nothing else."""
    base = f"http://127.0.0.1:{site.port}"
    with TestClient(create_app(site), base, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient, site: Site) -> TestClient:
    stranger.get(f"/enter/{site.key.hex()}")
    return stranger
