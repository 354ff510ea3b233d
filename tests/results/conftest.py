"""Homes with results, and a real database of each kind."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from crowd_lab import ROUND, Logs, Served, Volunteer, run_logs
from starlette.testclient import TestClient

from cmbench_crowd_server import api
from cmbench_crowd_server.app import create_app
from cmbench_crowd_server.checker import Checker
from cmbench_crowd_server.files import Files
from cmbench_crowd_server.ledger import Ledger, Limits
from cmbench_gui.site import Site
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store
from support import HANG_S, wait_for


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of this session's own."""
    pgserver = pytest.importorskip("pgserver")
    # It runs as another user where the tests run as root, who does not see into pytest's folders.
    with tempfile.TemporaryDirectory(prefix="cmbench-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder)
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database; that of the file in the home is empty."""
    if request.param == "sqlite":
        return ""
    import sqlalchemy as sa

    address = request.getfixturevalue("postgres")
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    engine.dispose()
    return str(address)


@pytest.fixture
def places(tmp_path: Path) -> SourceFiles:
    return SourceFiles(tmp_path / "cmbench")


@pytest.fixture
def opened(places: SourceFiles, url: str) -> Iterator[Callable[[], Store]]:
    """Opens the database, as often as it is called."""
    stores: list[Store] = []

    def open_it() -> Store:
        stores.append(Store(places, url))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    return opened()


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Logs]:
    """Nine real runs of LoadGen, made at once: what answers after seconds is measured well."""
    return run_logs(tmp_path_factory.mktemp("logs"), [ROUND] * 9)


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def crowd(places: SourceFiles, store: Store, tmp_path: Path, limits: Limits) -> api.CrowdServer:
    ledger = Ledger(store, b"secret", limits)
    files = Files(tmp_path / "files")
    return api.CrowdServer(ledger, files, Checker(ledger, files, tmp_path / "published", True))


@pytest.fixture
def client(crowd: api.CrowdServer, places: SourceFiles, url: str) -> Iterator[TestClient]:
    home = str(places.root.parent.parent)
    site = Site(home=home, key=b"k" * 32, db=url)
    app = create_app(site, crowd)
    with TestClient(app, base_url="http://127.0.0.1:8502", raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def volunteer(client: TestClient) -> Callable[[], Volunteer]:
    return lambda: Volunteer(client)


@pytest.fixture
def served(tmp_path: Path, url: str) -> Iterator[Served]:
    """``cm serve results`` in a process, on one home and port, as often as it is called."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started: list[subprocess.Popen[str]] = []
    program = (
        "import sys; from pathlib import Path; from cmbench.cli.reply import Command;"
        "from cmbench.session.workspace import Workspace;"
        "from cmbench_crowd_server import connections, verbs;"
        "connections.HEADER_S = connections.STUCK_S = 1.0;"
        "verbs.serve_results(Command('results', Workspace.open(sys.argv[1]),"
        " {'port': sys.argv[2], 'publish': 'checked', 'db': sys.argv[3]}))"
    )

    def start() -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", program, str(tmp_path / "served"), str(port), url]
        run = subprocess.Popen(command, text=True)
        started.append(run)
        base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert run.poll() is None
            with contextlib.suppress(requests.RequestException):
                return bool(requests.get(f"{base}/api/v1/work", timeout=HANG_S).status_code)
            return False

        wait_for(answers)
        return run, base

    yield start
    for run in started:
        run.kill()
        run.wait(HANG_S)
