"""The life of an entry, in every order in which processes can meet (decision 022)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cmbench.cache.store import CacheEntry, CacheStore
from interleaving import Actor, Search, patch

UID, IDENTITY, HALVES = "aa", "1d", ("one", "two")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    patch(monkeypatch)
    # A search makes and removes thousands of small worlds: in memory, where that is possible.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder, "world")


def made(store: CacheStore, uid: str = UID) -> CacheEntry:
    """An entry with a payload of two files."""
    staging = store.staging.stage("x", uid)
    for name in HALVES:
        Path(staging.path, name).write_text(name)
    entry = CacheEntry(uid, IDENTITY, "x", "0", (), (), "", staging.path, created=1.0)
    store.publish(entry)
    staging.keep()
    return entry


def home(place: Path) -> CacheStore:
    return CacheStore(str(place / "home"))


def whole(place: Path, uid: str = UID) -> bool:
    payload = place / "home/v1/store" / f"x_{uid}"
    return all((payload / name).is_file() for name in HALVES)


def check(place: Path) -> None:
    """Who can see an entry finds all of it, and so does who was told of it."""
    for path in (place / "home/v1/entries").rglob("[!.]*.json"):
        assert whole(place, path.stem), "an entry is seen without its payload"
    if (place / "told").exists():
        assert whole(place), "files were removed under a living run"


def swept(place: Path, actors: Sequence[Actor]) -> None:
    """When all have ended, two sweeps leave nothing but what can be seen."""
    store = home(place)
    store.staging.sweep()
    store.staging.sweep()
    seen = {entry.uid for entry in store.entries()}
    assert {path.name for path in (place / "home/v1/store").iterdir()} == {f"x_{u}" for u in seen}
    assert not list((place / "home/v1/staging").glob("*.json"))


def remover(place: Path, entry: CacheEntry) -> Callable[[], None]:
    return lambda: home(place).remove(entry)


def reader(place: Path, store: CacheStore) -> Callable[[], None]:
    def read() -> None:
        with store.running(str(place / "run")):
            if store.candidates(IDENTITY):
                # The kill of a reader ends its claim too.
                (place / "told").touch()
                try:
                    store.has(CacheEntry(UID, IDENTITY, "x", "0", (), (), "", ""))
                finally:
                    (place / "told").unlink()

    return read


def maker(place: Path, old: CacheEntry) -> Callable[[], None]:
    def make() -> None:
        store = home(place)
        staging = store.staging.stage("x")
        for name in HALVES:
            Path(staging.path, name).write_text(name)
        entry = CacheEntry(staging.uid, IDENTITY, "x", "0", (), (), "", staging.path, created=2.0)
        store.publish(entry, [old])
        staging.keep()

    return make


def verifier(place: Path, entry: CacheEntry) -> Callable[[], None]:
    def verify() -> None:
        store = home(place)
        with store.reading():
            if store.has(entry):
                (place / "told").touch()
                try:
                    store.files(entry)
                finally:
                    (place / "told").unlink()

    return verify


def crowd(place: Path, *names: str) -> Callable[[Path], list[Callable[[], None]]]:
    def make(place: Path) -> list[Callable[[], None]]:
        entry = made(home(place))
        other = CacheStore(str(place / "other"), str(place / "home"))
        known = {
            "remover": lambda: remover(place, entry),
            "reader": lambda: reader(place, home(place)),
            "other home": lambda: reader(place, other),
            "verifier": lambda: verifier(place, entry),
            "maker": lambda: maker(place, entry),
        }
        return [known[name]() for name in names]

    return make


CROWDS = ["remover+remover", "remover+reader", "remover+maker", "remover+other home"]
CROWDS += ["remover+verifier", "remover+remover+reader"]
KILLS = 1 if os.environ.get("CMBENCH_KILLS") else 0
"""The usual run kills nobody but removers; CMBENCH_KILLS=500 is the full measure, in minutes."""


@pytest.mark.parametrize("names", CROWDS if KILLS else CROWDS[:-1])
def test_an_entry_lives_as_it_should_in_every_order(place: Path, names: str) -> None:
    kills = 1 if names == CROWDS[0] else KILLS
    search = Search(crowd(place, *names.split("+")), check, swept, place, kills)
    ways = search.all()
    print(f"{names}: {ways} orders, {search.states} states, {search.runs} runs")
