"""The explorer over the results of a home: every view is an address."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import sqlalchemy as sa
from samples import NEWER_ROW, ROW, experiments, own_run, sweep
from starlette.testclient import TestClient

from cmbench_gui.explorer import columns, source, table, view
from cmbench_gui.explorer.columns import Columns
from cmbench_gui.site import Site
from cmbench_results import query
from cmbench_results.distinguish import short
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store

QUERIES = [
    "",
    "benchmark=bert-99",
    "benchmark=BERT-99&scenario=Offline&scenario=Server",
    "benchmark=!bert-99",
    "system=powered*",
    "system=*(8x*&round=4.0&round=2.1",
    "category=datacenter&sort=-value",
    "category=edge&sort=round&accelerators=!0&nodes=1",
    "q=maker+powered&sort=value",
    "q=no+such",
    "system=[a-z].*&q=.",
    "tier=local&form=tiny,+test+run",
    "unit=samples/s&validity=!INVALID&sort=-measured_at",
]

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
MACHINE = "DGX-Nine (8x Fast-80GB)"
CLOUDS = {"c6i.2xlarge box": 100.0, "c7g.16xlarge box": 2000.0}

Add = Callable[..., None]


def rows() -> list[dict[str, object]]:
    """Published results: three systems with power, one machine through four rounds, two clouds."""
    found: list[dict[str, object]] = []
    for number, (rate, watts) in enumerate(((1000, 500), (3000, 900), (900, 700))):
        power = {"has_power": True, "Result_Power": watts, "Result_Power_Units": "Watts"}
        told = {"Platform": f"p{number}", "SystemName": f"Powered {number}", "Result": rate}
        found.append({**ROW, **told, **power})
    for year, version in enumerate(("v2.0", "v2.1", "v3.0", "v4.0")):
        told = {"Platform": "nine", "SystemName": MACHINE, "Result": 5000 + 100 * year}
        found.append({**ROW, **told, "version": version})
    for name, rate in CLOUDS.items():
        told = {"Platform": name, "SystemName": name, "Result": rate, "Model": "resnet"}
        found.append({**ROW, **told, "MlperfModel": "resnet"})
    return found


@pytest.fixture
def add(site: Site) -> Add:
    places = SourceFiles(site.workspace().root)

    def add_it(path: Path) -> None:
        places.add(path)

    return add_it


@pytest.fixture
def explorer(client: TestClient, add: Add, tmp_path: Path) -> TestClient:
    """A client of a site with published results and three runs of one configuration."""
    add(experiments(tmp_path / "published", *rows(), NEWER_ROW))
    for day, value in enumerate((50.0, 52.5, 49.2)):
        own_run(tmp_path / "own" / str(day), value, f"2026-11-2{day}T10:00:00+00:00")
    add(tmp_path / "own")
    return client


def ids(client: TestClient, address: str) -> list[str]:
    answer = client.get(address)
    assert answer.status_code == 200
    return re.findall(r'class="value" href="/results/([0-9a-f]{16})"', answer.text)


def test_the_table_has_facets_with_counts_and_says_whom_to_trust(explorer: TestClient) -> None:
    text = explorer.get("/results").text
    assert "<b>13</b> results" in text
    assert re.search(r"<span>official</span> <span class=\"many\">10</span>", text)
    assert text.count('class="trust official"') == 10
    assert text.count('class="trust local"') == 3
    assert "not verified by MLCommons" in text
    official = explorer.get("/results?tier=official").text
    assert "not verified by MLCommons" not in official


def test_a_facet_narrows_and_its_link_takes_it_back(explorer: TestClient) -> None:
    text = explorer.get("/results?scenario=Offline&organization=Maker").text
    assert "<b>9</b> results" in text
    assert 'href="/results?scenario=Offline"' in text
    assert 'aria-current="true"' in text


def test_the_number_of_accelerators_is_a_filter(explorer: TestClient) -> None:
    chosen = query.of_flags({"accelerators": "1", "benchmark": "bert-99"})
    assert chosen.columns["accelerators"] == ("1",)
    one = ids(explorer, "/results?benchmark=bert-99&accelerators=1")
    assert one
    assert set(one) == set(ids(explorer, "/results?benchmark=bert-99"))
    assert ids(explorer, "/results?benchmark=bert-99&accelerators=8") == []
    assert ids(explorer, "/results?benchmark=bert-99&accelerators=!1") == []
    assert "accelerators in a node" in explorer.get("/results").text
    text = explorer.get("/results?benchmark=bert-99&scenario=Offline").text
    assert 'data-name="benchmark"' not in text, "what was chosen needs no column"


def test_columns_sort_and_sort_back(explorer: TestClient) -> None:
    down = ids(explorer, "/results?benchmark=bert-99&sort=-value")
    up = ids(explorer, "/results?benchmark=bert-99&sort=value")
    assert down == up[::-1]
    assert len(down) == 7
    assert 'aria-sort="descending"' in explorer.get("/results?sort=-value").text


def test_the_frontier_of_a_benchmark_is_an_address(explorer: TestClient) -> None:
    text = explorer.get("/results/plot?benchmark=bert-99&scenario=Offline&by=organization").text
    best = re.findall(r"Powered \d", text[text.index("Pareto frontier") :])
    assert best == ["Powered 0", "Powered 1"], "the third has less throughput for more power"
    assert "power, W (lower is better)" in text
    assert "Energy: certified." in text
    wide, phone = text.split("phone-only")
    for drawing in (wide, phone):
        assert drawing.count('class="point s0 best"') == 2


def test_a_machine_through_four_rounds_is_an_address(explorer: TestClient) -> None:
    query = urlencode(
        {"system": MACHINE, "benchmark": "bert-99", "scenario": "Offline", "draw": "course"}
    )
    text = explorer.get(f"/results/plot?{query}").text
    columns = re.findall(r">(v\d\.\d)</text>", text)
    assert columns == 2 * ["v2.0", "v2.1", "v3.0", "v4.0"], "of a wide window and of a phone"
    assert "5,300 samples/s" in text
    assert len(ids(explorer, f"/results?{query}&sort=round")) == 4


def test_the_cost_on_two_clouds_is_an_address(explorer: TestClient) -> None:
    text = explorer.get("/results?benchmark=resnet50&scenario=Offline&q=xlarge&priced=1").text
    costs = re.findall(r'data-name="cost per million">\$([\d.]+)<', text)
    # 0.34 $/h for 100 samples/s, 2.32 $/h for 2,000.
    assert sorted(map(float, costs)) == [pytest.approx(0.3222, 1e-3), pytest.approx(0.9444, 1e-3)]
    own = explorer.get("/results?q=c6i&price_per_hour=3.6&priced=1").text
    assert ">$10<" in own


def test_results_of_several_benchmarks_are_not_drawn_together(explorer: TestClient) -> None:
    text = explorer.get("/results/plot").text
    assert "Choose one benchmark and scenario" in text
    assert "<svg" not in text
    assert "bert-99 Offline, samples/s" in text


def test_ranking_draws_the_best_first(explorer: TestClient) -> None:
    text = explorer.get("/results/plot?benchmark=bert-99&scenario=Offline&draw=bars").text
    text = text.partition("phone-only")[0]
    names = re.findall(r'text-anchor="start">([^<]+), Maker', text)
    assert names[0] == MACHINE
    assert names[-1] == "Powered 2"


def test_a_result_without_an_accuracy_is_seen_to_lack_it(
    client: TestClient, add: Add, tmp_path: Path
) -> None:
    told = {"Platform": "p", "SystemName": "Unjudged", "Accuracy": "", "MlperfModel": "swift"}
    power = {"has_power": True, "Result_Power": 400, "Result_Power_Units": "Watts"}
    add(experiments(tmp_path / "published", *rows(), {**ROW, **told, **power}))
    address = "/results/plot?benchmark=bert-99&scenario=Offline&draw="
    scatter = client.get(f"{address}scatter").text
    rings = re.findall(r'class="point s0[^"]* bare"', scatter)
    # One for wide screens, one for phones.
    assert len(rings) == 2
    assert "A ring is a result without an accuracy (1 of 4)." in scatter
    assert "Powered 1; accuracy 90.5" in scatter
    for draw in ("scatter", "bars", "course"):
        assert "no accuracy" in client.get(address + draw).text
    table = client.get("/results?tier=official").text
    assert ">trust</th>" not in table, "the chip says it of all rows"
    assert ">trust</th>" in client.get("/results").text


def test_a_basket_becomes_a_comparison_of_what_differs(explorer: TestClient) -> None:
    one, two = ids(explorer, "/results?q=Powered&sort=-value")[:2]
    text = explorer.get(f"/results?in={one}&in={two}&q=Powered").text
    assert "results selected" in text
    side = explorer.get(f"/results/compare?id={one}&id={two}").text
    assert "x 0.333" in side
    assert "Powered 0" in side
    assert "operating system" not in side[side.index("What differs") :], "it is the same"
    assert "single run" in side


def test_a_ratio_of_repeated_runs_comes_with_its_spread(
    explorer: TestClient, add: Add, tmp_path: Path
) -> None:
    folder = own_run(tmp_path / "other", 100.0)
    told = json.loads((folder / "results.json").read_text())
    told["backend"] = "openvino"
    (folder / "results.json").write_text(json.dumps(told))
    add(folder)
    mine = ids(explorer, "/results?backend=onnxruntime")[0]
    other = ids(explorer, "/results?backend=openvino")[0]
    text = explorer.get(f"/results/compare?id={mine}&id={other}").text
    assert "x 2 (1.9 to 2.03)" in text
    assert "3 runs, spread 6.6%" in text


def test_points_of_a_sweep_are_not_repeats_of_each_other(
    client: TestClient, add: Add, tmp_path: Path
) -> None:
    sweep(tmp_path / "sweep")
    add(tmp_path / "sweep")
    best, other = ids(client, "/results?sort=-value")[::8][:2]
    text = client.get(f"/results/compare?id={best}&id={other}").text
    assert text.count(">3 runs, spread 9.8%</td>") == 2
    assert ">64</td>" in text[text.index("What differs") :]
    assert "3 runs, spread 9.8%" in client.get(f"/results/{best}").text
    assert "B is slower than A, x 0.6" in text


def test_a_table_of_ones_own_has_the_columns_that_differ(
    client: TestClient, add: Add, tmp_path: Path
) -> None:
    sweep(tmp_path / "sweep")
    add(tmp_path / "sweep")
    text = client.get("/results?sort=-value").text
    heads = re.findall(r'<th role="columnheader"[^>]*>(?:<a[^>]*>)?([a-z]+)', text)
    assert heads[:8] == [
        "result",
        "benchmark",
        "system",
        "model",
        "backend",
        "threads",
        "batch",
        "measured",
    ]
    assert "organization" not in heads
    assert '<td role="cell" data-name="batch">64</td>' in text
    assert "2026-11-22 10:05" in text
    assert "330 per core" in text
    ranking = client.get("/results/plot?benchmark=resnet50&draw=bars").text
    assert "threads 2, batch 64" in ranking
    exported = list(csv.DictReader(io.StringIO(client.get("/results/export.csv").text)))
    assert {row["settings.batch"] for row in exported} == {"1", "8", "64"}
    assert client.get("/results/export.json").json()[0]["settings"]["workers"] == "1"


def test_settings_of_a_result_are_read_at_a_glance() -> None:
    assert [short(text) for text in ("26657.137269104896", "8", "0.5", "3606bcde")] == [
        "26657.1",
        "8",
        "0.5",
        "3606bcde",
    ]


def test_a_result_tells_all_that_is_known(explorer: TestClient) -> None:
    uid = ids(explorer, "/results?tier=local")[0]
    text = explorer.get(f"/results/{uid}").text
    for told in ("not verified by MLCommons", "VALID", "cm run script x", "lowest", "49.2"):
        assert told in text
    assert "3 runs, spread 6.6%" in text
    assert 'class="dot present"' in text
    assert f"/results/{uid}/files/0" in text
    assert explorer.get(f"/results/{uid}/files/0").json()["benchmark"] == "resnet50"
    assert explorer.get(f"/results/{uid}.json").json()["workload"]["benchmark"] == "resnet50"
    published = ids(explorer, "/results?tier=official&q=Powered")[0]
    page = explorer.get(f"/results/{published}").text
    assert "single run" in page
    assert "not verified" not in page


def test_a_system_has_its_page(explorer: TestClient) -> None:
    text = explorer.get(f"/results?{urlencode({'system': MACHINE})}").text
    address = re.search(r"/results/systems/[0-9a-f]{16}", text)
    assert address
    page = explorer.get(address[0]).text
    assert MACHINE in page
    assert "4 results" in page
    assert "rounds 2.0, 2.1, 3.0, 4.0" in page


def test_a_system_of_nobody_has_its_page(explorer: TestClient) -> None:
    text = explorer.get("/results?tier=local").text
    address = re.search(r"/results/systems/[0-9a-f]{16}", text)
    assert address
    assert re.search(r'<p class="soft">(round [\d.]+)?</p>', explorer.get(address[0]).text)


def test_exports_have_what_the_view_has(explorer: TestClient) -> None:
    told = explorer.get("/results/export.csv?benchmark=bert-99&sort=-value").text
    lines = list(csv.DictReader(io.StringIO(told)))
    assert len(lines) == 7
    assert lines[0]["system"] == MACHINE
    data = explorer.get("/results/export.json?benchmark=resnet50&q=xlarge&priced=1").json()
    assert {each["system"] for each in data} == {*CLOUDS}
    assert all(each["cost_per_million"] for each in data)
    assert explorer.get("/results/export.json?q=nothing").json() == []
    assert explorer.get("/results/export.xml").status_code == 404


def test_a_plot_is_a_picture_of_its_own(explorer: TestClient) -> None:
    import xml.etree.ElementTree as ElementTree

    answer = explorer.get("/results/plot.svg?benchmark=bert-99&scenario=Offline")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert ElementTree.fromstring(answer.text).tag == "{http://www.w3.org/2000/svg}svg"
    assert explorer.get("/results/plot.svg").status_code == 400


def test_new_results_are_seen_without_a_restart(
    client: TestClient, add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench_gui.explorer.source.FRESH_S", 0.0)
    assert "cm add results DIR" in client.get("/results").text
    add(experiments(tmp_path / "published", ROW))
    assert "<b>1</b> result" in client.get("/results").text


def test_a_database_that_was_made_anew_is_seen_without_a_restart(
    explorer: TestClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FRESH_S", -1.0)
    assert "<b>13</b> results" in explorer.get("/results").text
    places = SourceFiles(site.workspace().root)
    for file in places.root.glob("index.sqlite*"):
        file.unlink()
    places.remove(next(each for each in places.readable()[0] if each.path.endswith("own")))
    assert "<b>10</b> results" in explorer.get("/results").text


def test_a_database_that_a_newer_version_has_changed_is_one_clear_page(
    explorer: TestClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FRESH_S", -1.0)
    assert explorer.get("/results").status_code == 200
    with Store(SourceFiles(site.workspace().root)) as store, store.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for path in ("/results", "/results/plot", "/results/export.csv"):
        answer = explorer.get(path)
        assert answer.status_code >= 400
        assert "newer-database" in answer.text
        assert "pip install --upgrade" in answer.text


@pytest.mark.parametrize("name", ["SystemName", "Organization", "framework", "Model", "Platform"])
def test_names_of_results_are_never_markup(
    client: TestClient, add: Add, tmp_path: Path, name: str
) -> None:
    power = {"has_power": True, "Result_Power": 5, "Result_Power_Units": "Watts"}
    add(
        experiments(
            tmp_path / "published", {**ROW, **power, "Platform": "box_2", name: HOSTILE}, ROW
        )
    )
    uid, other = ids(client, "/results")
    system = re.search(r"/results/systems/[0-9a-f]+", client.get("/results").text)
    assert system
    pages = ["/results", f"/results/{uid}", f"/results/{other}", system[0]]
    pages += [f"/results/compare?id={uid}&id={other}", "/results/plot", "/results?x=value"]
    for draw in ("scatter", "bars", "course"):
        for by in ("organization", "system", "framework"):
            pages.append(f"/results/plot?draw={draw}&by={by}&q=b&scenario=Offline&x=value")
    for page in pages:
        text = client.get(page).text
        assert "<script>alert" not in text
        assert "<img" not in text


CRAFTED = [
    "nope=1",
    "sort=uid;drop",
    "sort=-key",
    "page=0",
    "page=99999999999999999999",
    "page=-1",
    "x=__class__",
    "y=1",
    "by=key",
    "draw=pie",
    "xmin=nan",
    "xmax=inf",
    "has=key",
    "price_per_hour=free",
    "price_per_hour=-1",
    "purchase_price=5",
    "in=" + "a" * 300,
    "benchmark=" + "a" * 10_000,
    "&".join(f"benchmark={n}" for n in range(100)),
]


@pytest.mark.parametrize("query", CRAFTED, ids=lambda each: each[:24])
def test_a_crafted_address_is_answered_in_one_sentence(explorer: TestClient, query: str) -> None:
    for path in ("/results", "/results/plot", "/results/plot.svg", "/results/export.csv"):
        answer = explorer.get(f"{path}?{query}")
        assert answer.status_code == 400
        assert "badge bad" in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "query",
    [
        f"q={HOSTILE}",
        f"benchmark={HOSTILE}",
        "q=' OR 1=1 --",
        "benchmark=%",
        "system=_*\\",
        "page=20000",
        "benchmark=%00",
        "organization=%ff%fe",
        "xmin=1e308&xmax=-1e308&logx=1&logy=1&benchmark=bert-99&scenario=Offline",
        "benchmark=bert-99&scenario=Offline&x=value&y=value&logx=1",
        "benchmark=bert-99&scenario=Offline&x=cost_per_million&y=nodes",
        "in=zzzz&in=<b>",
    ],
)
def test_odd_values_are_only_values(explorer: TestClient, query: str) -> None:
    for path in ("/results", "/results/plot", "/results/export.json"):
        answer = explorer.get(f"{path}?{query}")
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/results/zz", 404),
        ("/results/00000000", 404),
        ("/results/0000.json", 404),
        ("/results/systems/0000", 404),
        ("/results/0000/files/0", 404),
        ("/results/compare", 400),
        ("/results/compare?id=0000", 400),
        ("/results/compare?id=0000&id=1111", 404),
        ("/results/compare?id=../..&id=1111", 404),
    ],
)
def test_what_is_not_there_is_told(explorer: TestClient, path: str, status: int) -> None:
    answer = explorer.get(path)
    assert answer.status_code == status
    assert "badge bad" in answer.text


def test_files_of_a_result_are_its_own_and_only_text(
    client: TestClient, add: Add, tmp_path: Path
) -> None:
    folder = own_run(tmp_path / "own")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    (folder / "page.html").write_text("<script>alert(1)</script>")
    (folder / "weights.bin").write_bytes(b"\0")
    add(folder)
    (uid,) = ids(client, "/results")
    page = client.get(f"/results/{uid}").text
    names = re.findall(rf'/results/{uid}/files/\d+">([^<]+)<', page)
    assert names == ["page.html", "results.json"]
    answer = client.get(f"/results/{uid}/files/0")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get(f"/results/{uid}/files/9").status_code == 404


def test_a_broken_file_of_results_is_told_with_what_to_do(
    client: TestClient, add: Add, tmp_path: Path, site: Site
) -> None:
    add(own_run(tmp_path / "own"))
    (place,) = Path(site.workspace().root, "results", "places").glob("*.jsonl")
    place.write_text("{")
    answer = client.get("/results")
    assert answer.status_code == 400
    assert "broken-results" in answer.text
    assert "add its results again" in answer.text


SERIES = {
    "edges_ms": [1.0, 2.0, 4.0],
    "counts": [3, 1],
    "recorded": 4,
    "progress": [[0.0, 0], [1.0, 2], [2.0, 4]],
    "over_time": [[0.0, 1.0, 2.0], [1.0, 1.5, 2.5]],
}


def test_what_was_recorded_during_a_run_is_drawn_as_in_its_report(
    client: TestClient, add: Add, tmp_path: Path
) -> None:
    folder = own_run(tmp_path / "own")
    (folder / "offline" / "performance").mkdir(parents=True)
    series = folder / "offline" / "performance" / "series.json"
    series.write_text(json.dumps(SERIES))
    add(folder)
    (uid,) = ids(client, "/results")
    text = client.get(f"/results/{uid}").text
    for title in ("Latency", "Answered within a time", "Throughput over time"):
        assert f"<figcaption>{title}" in text


@pytest.mark.parametrize(
    "told", ["{", "[]", "3", json.dumps({**SERIES, "counts": "x"}), '{"progress": [[1]]}']
)
def test_a_recording_that_is_none_only_lacks(
    client: TestClient, add: Add, tmp_path: Path, told: str
) -> None:
    folder = own_run(tmp_path / "own")
    (folder / "offline" / "performance").mkdir(parents=True)
    (folder / "offline" / "performance" / "series.json").write_text(told)
    add(folder)
    (uid,) = ids(client, "/results")
    answer = client.get(f"/results/{uid}")
    assert answer.status_code == 200
    assert "During the run" not in answer.text


@pytest.mark.parametrize("looked", [0, 4, 1000])
@pytest.mark.parametrize("query", QUERIES)
def test_columns_in_memory_answer_what_the_database_does(
    site: Site, tmp_path: Path, query: str, looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_SORTING", looked)
    places = SourceFiles(site.workspace().root)
    with Store(places) as store:
        odd = {**ROW, "Platform": "odd", "SystemName": "100%_Odd [a-z]\\"}
        for path in (experiments(tmp_path / "p", *rows(), NEWER_ROW, odd), own_run(tmp_path / "o")):
            place = places.add(path)
            store.add(place, places.results(place))
        known = Columns(store)
        known.prepare(tuple(table.FACETS), ("-value",))
        seen = view.read(parse_qsl(query))
        assert known.knows(seen.wanted)
        assert table.table(store, seen, known) == table.table(store, seen)
        assert table.facets(store, seen, known) == table.facets(store, seen)


@pytest.mark.parametrize("value", ["", "a", "ab", "aba", "abab", "ba"])
@pytest.mark.parametrize("pattern", ["", "*", "a*", "*a", "a*a", "ab*ba", "*b*", "a**b", "a*b*a"])
def test_stars_stand_for_anything(pattern: str, value: str) -> None:
    wanted = re.fullmatch(pattern.replace("*", ".*"), value) is not None
    assert columns._matches_wildcard(value, pattern.split("*")) is wanted


def test_a_pattern_with_many_stars_stops_nobody(tmp_path: Path, site: Site) -> None:
    places = SourceFiles(site.workspace().root)
    with Store(places) as store:
        named = {**ROW, "Organization": "a" * 200, "Submitter": "a" * 200}
        place = places.add(experiments(tmp_path / "p", named))
        store.add(place, places.results(place))
        known = Columns(store)
        wanted = view.read([("organization", "a*" * 99 + "b")]).wanted
        assert known.find(wanted, "", 50, 0).total == 0


def test_only_pages_of_few_values_are_made_where_others_wait(site: Site) -> None:
    with Store(SourceFiles(site.workspace().root)) as store:
        known = Columns(store)
        for query, quick in (
            ("", True),
            ("scenario=Offline&q=a+b", True),
            ("scenario=Off*", False),
            ("sort=-power", False),
            ("has=power", False),
            ("q=a+b+c+d+e+f+g+h+i", False),
            ("&".join(f"round={number}" for number in range(20)), False),
        ):
            seen = view.read(parse_qsl(query))
            assert known.at_once(seen.wanted, seen.sort) is quick, query


def test_what_columns_do_not_know_is_left_to_the_database(site: Site) -> None:
    with Store(SourceFiles(site.workspace().root)) as store:
        known = Columns(store)
        for query in ("uid=00", "has=power", "series=0", "system_id=0"):
            assert not known.knows(view.read(parse_qsl(query)).wanted)
        assert table.table(store, view.ExplorerView(), known).total == 0


@pytest.mark.parametrize("before", ["", "scenario=Offline&q=a+b&sort=-value&in=abcd&page=3"])
@pytest.mark.parametrize("value", ["Offline", "a & b=c", "v*", "Zürich"])
def test_an_address_adds_a_value_or_a_result_and_takes_it_out_again(
    before: str, value: str
) -> None:
    seen = view.read(parse_qsl(before))
    added = view.read(parse_qsl(urlsplit(seen.toggles("/results", "scenario")(value)).query))
    again = view.read(parse_qsl(urlsplit(added.toggles("/results", "scenario")(value)).query))
    had = seen.wanted.columns.get("scenario", ())
    assert set(had) ^ set(added.wanted.columns.get("scenario", ())) == {value}
    assert again == replace(seen, page=1)
    held = view.read(parse_qsl(urlsplit(seen.holds("/results")("0123")).query))
    assert held == replace(seen, basket=(*seen.basket, "0123"))
    assert held.holds("/results")("0123") == seen.at("/results")
