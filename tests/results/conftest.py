"""Homes with results, and a real database of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cmbench_results.places import Places
from cmbench_results.store import Store


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
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cmbench")


@pytest.fixture
def opened(places: Places, url: str) -> Iterator[Callable[[], Store]]:
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
