"""The pages of results over each kind of database: what one answers, the other does, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from samples import NEWER_ROW, ROW, experiments, own_run
from starlette.testclient import TestClient

from cmbench_gui.explorer import source
from cmbench_gui.server import create_app
from cmbench_gui.site import Site
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store

ODD = ("q=%00", "q=%ff", "benchmark=%00", "system=_*%5C", "q=%27+OR+1%3D1+--", f"q={'a' * 200}")


@pytest.fixture
def pages(places: SourceFiles, store: Store, url: str, tmp_path: Path) -> Iterator[TestClient]:
    """A client of a site whose database holds published results and a run of our own."""
    power = {"has_power": True, "Result_Power": 500, "Result_Power_Units": "Watts"}
    own_run(tmp_path / "own")
    for path in (experiments(tmp_path / "a", {**ROW, **power}, NEWER_ROW), tmp_path / "own"):
        place = places.add(path)
        store.add(place, places.results(place))
    site = Site(str(places.root.parent.parent), b"k" * 32, db=url)
    base = f"http://127.0.0.1:{site.port}"
    with TestClient(create_app(site), base, raise_server_exceptions=False) as client:
        client.get(f"/enter/{site.key.hex()}")
        yield client


def test_each_page_is_answered(pages: TestClient) -> None:
    table = pages.get("/results?sort=-value").text
    assert "<b>3</b> results" in table
    uids = re.findall(r'class="value" href="/results/([0-9a-f]{16})"', table)
    machines = re.findall(r'href="/results/systems/([0-9a-f]+)', table)
    shown = [f"/results/{uid}" for uid in uids] + [f"/results/systems/{m}" for m in machines]
    shown += [f"/results/compare?id={uids[0]}&id={uids[1]}", f"/results/{uids[0]}.json"]
    shown += ["/results/plot?benchmark=bert-99&scenario=Offline", "/results/export.csv"]
    shown += [f"/results?sort={name}" for name in ("round", "-measured_at", "power")]
    for path in (*shown, "/results?tier=official&q=maker", "/results?benchmark=!bert-99"):
        answer = pages.get(path)
        assert answer.status_code == 200, path
        assert answer.content


@pytest.mark.parametrize("query", ODD, ids=lambda each: each[:24])
def test_odd_values_find_nothing(pages: TestClient, query: str) -> None:
    answer = pages.get(f"/results?{query}")
    assert answer.status_code == 200
    assert "<b>0</b> results" in answer.text


def test_tables_of_a_newer_version_are_one_clear_page(
    pages: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FRESH_S", -1.0)
    assert pages.get("/results").status_code == 200
    with store.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    answer = pages.get("/results")
    assert answer.status_code >= 400
    assert "newer-database" in answer.text
