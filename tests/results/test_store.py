"""The database: the same tests on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import samples
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from samples import NEWER_ROW, ROW, add, experiments, log, own_run, sweep, tree

from cmbench.errors import Error
from cmbench_results import compare, cost, query, read_only, schema
from cmbench_results.query import Filter
from cmbench_results.result_sources import ResultSource, SourceFiles
from cmbench_results.store import LATEST, SERVED, Store
from cmbench_results.values import (
    LOCAL,
    LOGS,
    OFFICIAL,
    BenchmarkResult,
    BenchmarkWorkload,
    SystemDescription,
)

Open = Callable[[], Store]


def rows(store: Store, **columns: str) -> list[query.Row]:
    return list(query.find(store, query.of_flags(columns)).rows)


def test_what_is_added_twice_is_there_once(store: Store, tmp_path: Path) -> None:
    for _ in range(2):
        add(store, experiments(tmp_path / "a", ROW, NEWER_ROW, ROW))
    add(store, experiments(tmp_path / "b", ROW))
    assert [row["benchmark"] for row in rows(store)] == ["bert-99", "resnet50"]


def test_a_tree_confirms_what_was_published_and_goes_again(store: Store, tmp_path: Path) -> None:
    add(store, experiments(tmp_path / "a", ROW))
    place = add(store, tree(tmp_path / "t", 1000.4))
    (row,) = rows(store)
    assert (row["value"], row["tier"], row["figures_from"]) == (1000.4, OFFICIAL, LOGS)
    uids = [each.uid for each in store.places.results(place)]
    store.places.remove(place)
    store.remove(place, uids)
    (row,) = rows(store)
    assert (row["value"], row["tier"]) == (1000.0, OFFICIAL)


@pytest.mark.parametrize("value", [50.0, 25.0])
def test_a_copy_of_a_run_never_takes_its_place(store: Store, tmp_path: Path, value: float) -> None:
    own_run(tmp_path / "valid_results/box/resnet50")
    copy = own_run(tmp_path / "valid_results/box.bak/resnet50")
    told = json.loads((copy / "results.json").read_text())
    told["results"][0]["value"] = value
    (copy / "results.json").write_text(json.dumps(told))
    place = add(store, tmp_path)
    (found,) = store.places.results(place)
    assert (found.value, place.unread) == (50.0, int(value != 50.0))
    for each in place.examples:
        assert each.place.endswith("box.bak/resnet50")
        assert "valid_results/box/resnet50" in each.why


def test_a_scenario_spelt_twice_in_a_tree_is_told(store: Store, tmp_path: Path) -> None:
    place = tree(tmp_path / "t") / "closed/Maker/results/box_1/bert-99"
    log(place / "offline/performance/run_1", "Offline", result_samples_per_second=1.0)
    added = add(store, tmp_path / "t")
    (found,) = store.places.results(added)
    assert (found.value, added.unread) == (1000.0, 1)
    assert "bert-99/Offline" in added.examples[0].why


def test_a_tree_alone_is_local(store: Store, tmp_path: Path) -> None:
    add(store, tree(tmp_path / "t"))
    (row,) = rows(store)
    assert (row["round"], row["tier"], row["system"]) == ("4.1", LOCAL, "Box One (1x Fast-80GB)")
    assert row["latency_p99"] == 2.0


def test_a_result_that_is_gone_from_its_place_is_gone(store: Store, tmp_path: Path) -> None:
    add(store, experiments(tmp_path / "a", ROW, NEWER_ROW))
    add(store, experiments(tmp_path / "a", ROW))
    assert len(rows(store)) == 1


def test_earlier_runs_of_a_folder_stay(store: Store, tmp_path: Path) -> None:
    add(store, own_run(tmp_path / "r", 50.0))
    add(store, own_run(tmp_path / "r", 60.0, when="2026-11-22T11:00:00+00:00"))
    assert sorted(row["value"] for row in rows(store)) == [50.0, 60.0]
    newest = store.result("last")
    assert newest.value == 60.0
    assert compare.spread(store, newest).runs == 2
    assert store.result(newest.uid[:6]) == newest


def test_the_database_is_made_again_from_the_files(opened: Open, tmp_path: Path) -> None:
    store = opened()
    add(store, experiments(tmp_path / "a", ROW, NEWER_ROW))
    before = rows(store)
    with store.reading() as connection:
        for table in reversed(schema.metadata.sorted_tables):
            connection.execute(table.delete())
    assert not rows(store)
    assert store.rebuild() == 2
    assert rows(store) == before


def test_what_a_run_left_in_the_files_is_taken_in(opened: Open, tmp_path: Path) -> None:
    store = opened()
    SourceFiles(store.places.root.parent).add(own_run(tmp_path / "r"))
    assert not rows(store)
    store.refresh()
    assert [row["value"] for row in rows(store)] == [50.0]


def test_a_place_that_is_removed_while_it_is_listed_is_no_fault(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = SourceFiles(store.places.root.parent)
    gone, stays = places.add(own_run(tmp_path / "a")), places.add(own_run(tmp_path / "b", 7.0))
    real = Path.glob

    def removed(folder: Path, pattern: str) -> list[Path]:
        found = list(real(folder, pattern))
        places.remove(gone)
        return found

    monkeypatch.setattr(Path, "glob", removed)
    assert store.places.readable()[0] == [stays]
    store.refresh()
    assert [row["value"] for row in rows(store)] == [7.0]


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_place_that_is_removed_before_it_is_taken_in_is_not_there(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    place = store.places.add(own_run(tmp_path / "a"))
    real = SourceFiles.results

    def removed(places: SourceFiles, of: ResultSource) -> Iterator[BenchmarkResult]:
        if when == "before":
            places.remove(of)
        yield from real(places, of)
        places.remove(of)

    monkeypatch.setattr(SourceFiles, "results", removed)
    assert store.take_in(place) == 0
    assert not rows(store)
    assert not store.known()


def test_what_was_removed_from_the_files_alone_is_taken_out(
    places: SourceFiles, tmp_path: Path
) -> None:
    with Store(places) as store:
        own = add(store, own_run(tmp_path / "r"))
        many = add(store, experiments(tmp_path / "a", ROW, NEWER_ROW))
        # As where the disk is full when the database is written.
        places.remove(own)
        places.without(many, [row["uid"] for row in rows(store, benchmark="resnet50")])
        store.refresh()
        assert [row["benchmark"] for row in rows(store)] == ["bert-99"]
        places.root.joinpath("places").rename(tmp_path / "not mounted")
        store.refresh()
        assert rows(store)


@pytest.mark.parametrize("by", ["rebuild", "add"])
def test_what_a_killed_writer_left_is_removed(places: SourceFiles, tmp_path: Path, by: str) -> None:
    place = places.add(own_run(tmp_path / "r"))
    left = places.root / "places" / f"{place.id}.new.4194305"
    left.write_text("{", encoding="utf-8")
    if by == "add":
        places.add(own_run(tmp_path / "other"))
    else:
        with Store(places) as store:
            assert store.rebuild() == 1
    assert not left.exists()


def test_two_writers_at_once(store: Store, url: str, tmp_path: Path) -> None:
    root = str(store.places.root.parent)
    many = [{**ROW, "Platform": f"box_{n}"} for n in range(300)]
    paths = [experiments(tmp_path / name, *part) for name, part in (("a", many), ("b", many[100:]))]
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=samples.write_often, args=(root, url, str(path))) for path in paths
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert query.find(store, Filter()).total == 300


def test_who_waits_for_another_writer_is_told(
    places: SourceFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench_results.store._SILENT_S", 0.05)
    said: list[str] = []
    Store(places).close()
    other = sqlite3.connect(
        places.root / "index.sqlite", isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")

    def say(line: str) -> None:
        said.append(line)
        other.execute("COMMIT")

    with Store(places, "", say) as store:
        place = places.add(own_run(tmp_path / "own"))
        assert store.take_in(place) == 1
        with store.reading() as connection:
            patience = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
        assert patience == 60_000, "whatever comes next waits as long as before"
    other.close()
    [line] = said
    assert "another program is writing to" in line


def test_a_mistyped_id_meets_no_result(store: Store, tmp_path: Path) -> None:
    store.take_in(store.places.add(own_run(tmp_path / "own")))
    [row] = query.find(store, Filter()).rows
    assert store.result(row["uid"][:4]).uid == row["uid"]
    with pytest.raises(Error, match="too short for the id of a result"):
        store.result(row["uid"][:3])


def test_first_openings_at_once(places: SourceFiles, url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    args = (str(places.root.parent), url)
    first = [spawn.Process(target=samples.open_once, args=args) for _ in range(4)]
    for each in first:
        each.start()
    for each in first:
        each.join()
    assert [each.exitcode for each in first] == [0] * 4


def test_filters_facets_and_order(store: Store, tmp_path: Path) -> None:
    fast = {**ROW, "Platform": "box_9", "Organization": "100%_Other", "Result": 5000}
    add(store, experiments(tmp_path / "a", ROW, fast, NEWER_ROW))
    assert [row["value"] for row in rows(store, benchmark="BERT-*")] == [5000, 1000]
    assert len(rows(store, organization="100%_*")) == 1
    assert len(rows(store, organization="!maker")) == 1
    assert len(rows(store, scenario="Offline,SingleStream")) == 3
    assert len(rows(store, category="edge")) == 1
    assert query.find(store, Filter(words=("box two",))).total == 1
    assert query.find(store, Filter(has=("latency_p90",))).total == 1
    assert query.find(store, Filter(words=("'; DROP TABLE run; --",))).total == 0
    counts = query.facets(store, query.of_flags({"benchmark": "bert-99"}), ["benchmark", "round"])
    assert counts == {"benchmark": [("bert-99", 2), ("resnet50", 1)], "round": [("4.1", 2)]}
    page = query.find(store, Filter(), sort="-value", limit=1, offset=1)
    assert (page.total, [row["value"] for row in page.rows]) == (3, [1000])


@pytest.mark.parametrize("flags", [{"benchmrk": "x"}, {"benchmark": True}])
def test_a_filter_that_cannot_be_is_refused(flags: dict[str, object]) -> None:
    with pytest.raises(Error):
        query.of_flags(flags)


@pytest.mark.parametrize("text", ["a" * 60_000, "\0", "\udcff", "line\nline", "a" * 60_000 + "*"])
def test_what_no_result_can_say_finds_nothing(store: Store, tmp_path: Path, text: str) -> None:
    add(store, experiments(tmp_path / "a", ROW))
    for wanted in (
        Filter(words=(text,)),
        Filter({"system": (text,)}),
        Filter({"category": (text,)}),
    ):
        assert query.find(store, wanted, limit=10**18, offset=0).total == 0
    assert query.find(store, Filter({"system": (f"!{text}",)})).total == 1
    with pytest.raises(Error) as raised:
        store.result(text)
    assert raised.value.code == "result-not-found"


def test_as_many_values_as_can_be_asked_for(store: Store, tmp_path: Path) -> None:
    add(store, experiments(tmp_path / "a", ROW))
    many = tuple(f"{number}*" for number in range(query.MOST_VALUES))
    words = ("maker",) * query.MOST_WORDS
    assert query.find(store, Filter({"system": many}, words)).total == 0
    assert (
        query.find(store, Filter({"system": tuple(f"!{each}" for each in many)}, words)).total == 1
    )
    with pytest.raises(Error, match="too long"):
        Filter({"system": (*many, "more")})


def test_power_in_a_row_of_its_own_is_the_same_result(store: Store, tmp_path: Path) -> None:
    power = {**ROW, "Result": None, "Result_Units": "Watts", "Result_Power": 500.0}
    add(store, experiments(tmp_path / "a", power, ROW))
    (row,) = rows(store)
    assert (row["value"], row["power"], row["energy_tier"]) == (1000.0, 500.0, "certified")
    assert row["energy_per_sample"] == 0.5


def test_what_differs_and_by_how_much(store: Store, tmp_path: Path) -> None:
    fast = {**ROW, "Platform": "box_9", "SystemName": "Box Nine", "Result": 5000}
    add(store, experiments(tmp_path / "a", ROW, fast))
    found = compare.compare(store, [row["uid"] for row in rows(store)])
    assert [each.ratios for each in found.figures if each.name == "throughput"] == [(1.0, 0.2)]
    assert [each.what for each in found.differences] == ["system"]
    with pytest.raises(Error, match="two or more"):
        compare.compare(store, ["1"])


def test_each_point_of_a_sweep_is_a_configuration(store: Store, tmp_path: Path) -> None:
    sweep(tmp_path)
    add(store, tmp_path)
    by_series: dict[str, list[query.Row]] = {}
    for row in rows(store):
        by_series.setdefault(row["series"], []).append(row)
    assert sorted(map(len, by_series.values())) == [3] * 6
    for repeats in by_series.values():
        spread = compare.spread(store, store.result(repeats[0]["uid"]))
        assert (spread.runs, spread.relative) == (3, pytest.approx(10 / 102))


@pytest.mark.parametrize(
    "name", ["batch", "target_min_duration_ms", "fp16", "model_sha256", "seed"]
)
def test_a_setting_makes_another_configuration(name: str) -> None:
    work, system = BenchmarkWorkload("own", "Offline"), SystemDescription("lab")
    plain = BenchmarkResult("a", work, system)
    assert plain.series == replace(plain, key="b", value=2.0, validity="INVALID").series
    assert plain.series != replace(plain, settings={name: "8"}).series


def test_a_target_counts_where_the_user_set_it() -> None:
    work, system = BenchmarkWorkload("own", "Server"), SystemDescription("lab")
    plain = BenchmarkResult("a", work, system)
    for origin, counts in (("calibration", False), ("stored target", False), ("option", True)):
        one, other = (
            replace(plain, settings={"target_qps": qps, "target_origin": origin})
            for qps in ("60", "61")
        )
        assert (one.series != other.series) == counts


def test_runs_of_an_older_database_are_grouped_anew(opened: Open, tmp_path: Path) -> None:
    store = opened()
    sweep(tmp_path)
    add(store, tmp_path)
    before = {row["uid"]: (row["series"], row["throughput_per_core"]) for row in rows(store)}
    with store.writing() as connection:
        connection.execute(sa.text("UPDATE run SET series = 'one for all'"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0002'"))
        for part in ("accelerator", "watt", "core"):
            connection.execute(sa.text(f"ALTER TABLE run DROP COLUMN throughput_per_{part}"))
    store.close()
    anew = {row["uid"]: (row["series"], row["throughput_per_core"]) for row in rows(opened())}
    assert anew == before


def test_costs_come_from_the_table_or_from_the_user(store: Store, tmp_path: Path) -> None:
    cloud = {**ROW, "SystemName": "NC96ads_A100_v4 (4x A100)", "Result": 1e6 / 3600}
    add(store, experiments(tmp_path / "a", cloud))
    (row,) = rows(store)
    assert cost.of_flags({}).per_million(row) == pytest.approx(14.692)
    assert cost.of_flags({"price_per_hour": 2}).per_million(row) == pytest.approx(2)
    owned = {"purchase_price": 8760, "lifetime_years": 1}
    assert cost.of_flags(owned).per_million(row) == pytest.approx(1)
    powered = cost.of_flags({**owned, "price_per_kwh": 0.5})
    assert powered.per_million({**row, "power": 1000.0}) == pytest.approx(1.5)
    assert cost.of_flags({}).per_million({**row, "system": "my box"}) is None
    for wrong in ({"price_per_hour": "cheap"}, {"purchase_price": 5}):
        with pytest.raises(Error):
            cost.of_flags(wrong)


POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25)


@given(POINTS)
def test_the_frontier_is_what_no_other_beats(points: list[tuple[int, int]]) -> None:
    same = {"benchmark": "b", "scenario": "s", "unit": "u", "energy_tier": ""}
    known = [{"uid": str(n), "value": x, "power": y, **same} for n, (x, y) in enumerate(points)]
    found = query.frontier(known, "value", "power")
    unbeaten = {
        (x, y)
        for x, y in points
        if not any(a >= x and b <= y and (a, b) != (x, y) for a, b in points)
    }
    assert {(row["value"], row["power"]) for row in found} == unbeaten


def test_energy_that_was_measured_in_two_ways_is_not_compared() -> None:
    same = {"benchmark": "b", "scenario": "s", "unit": "u", "value": 1.0, "power": 2.0}
    tiers = [{"uid": tier, "energy_tier": tier, **same} for tier in ("certified", "telemetry")]
    with pytest.raises(Error, match="energy_tier"):
        query.frontier(tiers, "value", "power")


def test_a_frontier_of_unlike_results_is_refused(store: Store, tmp_path: Path) -> None:
    add(store, experiments(tmp_path / "a", ROW, NEWER_ROW))
    known = query.points(store, Filter(), "value", "accuracy")
    with pytest.raises(Error, match="several values of benchmark"):
        query.frontier(known, "value", "accuracy")


def test_a_database_of_a_newer_version_is_left_alone(opened: Open) -> None:
    store = opened()
    with store.reading() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Error, match="9999") as raised:
        opened()
    assert raised.value.code == "newer-database"


def test_a_file_with_the_first_tables_is_brought_up_to_date(places: SourceFiles) -> None:
    dump = Path(__file__).with_name("first_tables.sql").read_text(encoding="utf-8")
    places.root.mkdir(parents=True)
    with sqlite3.connect(places.root / "index.sqlite") as old:
        old.executescript(dump)
    old.close()
    with Store(places) as store:
        assert [row["value"] for row in rows(store)] == [1000.0, 0.5]
        with store.reading() as connection:
            found = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
            assert found.scalar_one() == LATEST
            made = set(sa.inspect(connection).get_table_names())
    assert made == {*schema.metadata.tables, "alembic_version"}


def test_a_file_that_is_no_database_is_told(places: SourceFiles) -> None:
    places.root.mkdir(parents=True)
    (places.root / "index.sqlite").write_bytes(b"not a database" * 99)
    with pytest.raises(Error) as raised:
        Store(places)
    assert raised.value.code == "no-database"
    assert "cm reindex results" in raised.value.hint
    lock = places.root.parent / SERVED
    lock.parent.mkdir()
    lock.touch()
    with pytest.raises(Error) as raised:
        Store(places)
    assert "restore your backup" in raised.value.hint


def test_of_a_home_that_can_only_be_read_nothing_is_written(
    places: SourceFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(places) as own:
        add(own, experiments(tmp_path / "a", ROW, NEWER_ROW))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("cmbench_results.read_only.cannot_be_written", lambda folder: True)
    places.add(experiments(tmp_path / "b", {**ROW, "Organization": "Other"}))
    before = {path: path.stat().st_mtime_ns for path in places.root.rglob("*")}
    with Store(places) as copy:
        copy.refresh()
        assert {row["organization"] for row in rows(copy)} == {"Maker", "Other"}
    assert {path: path.stat().st_mtime_ns for path in places.root.rglob("*")} == before
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o555)
    assert read_only.cannot_be_written(tmp_path / "home" / "cmbench" / "results")
    assert not read_only.cannot_be_written(tmp_path / "other")


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "postgresql://nobody@127.0.0.1:1/x"])
def test_an_address_without_a_database_is_told(places: SourceFiles, url: str) -> None:
    with pytest.raises(Error) as raised:
        Store(places, url)
    assert raised.value.code in ("bad-value", "no-database")
