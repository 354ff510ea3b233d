"""The list of the cache: always what the files say, without reading them where that is known."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.cache import listing
from cmbench.cache.cache_entry import CacheEntry, sealed
from cmbench.cache.listing import Listing
from cmbench.cache.store import CacheStore
from lab import Lab
from support import python_env

TOOL = """
def preprocess(i):
    return {'return': 0}
"""


@pytest.fixture(autouse=True)
def all_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_WORTH", 1)


def entry(number: int, **more: Any) -> CacheEntry:
    names = {"script": f"get-{number % 7}", "script_uid": f"{number % 7:016x}"}
    base = CacheEntry(
        uid=f"{number:016x}",
        identity=f"{number // 2:024x}",
        tags=("get", f"n-{number}", 'odd "tag"'),
        variations=(),
        version="1",
        path=f"/nowhere/{number}",
        created=1e9 + number,
        deps=(f"{(number - 1) // 2:024x}/{number - 1:016x}",) if number else (),
        **names,
    )
    return replace(base, **more)


class Folder:
    """Metadata as any engine, this one or another, may have left it; times do not repeat."""

    def __init__(self, path: Path) -> None:
        self.entries = path / "entries"
        self.entries.mkdir()
        self.database = path / "entries.db"
        self._time = 1_000_000_000_000_000_000

    def file(self, one: CacheEntry) -> Path:
        return self.entries / one.identity / f"{one.uid}.json"

    def put(self, one: CacheEntry) -> None:
        self.file(one).parent.mkdir(exist_ok=True)
        self.file(one).write_text(sealed(json.dumps(asdict(one))))
        self.age(self.file(one), self.file(one).parent)

    def age(self, *paths: Path) -> None:
        """Give them times of long ago, each another one."""
        for path in paths:
            if path.exists():
                self._time += 1_000_000
                os.utime(path, ns=(self._time, self._time))

    def drop(self, one: CacheEntry) -> None:
        self.file(one).unlink(missing_ok=True)
        self.age(self.file(one).parent)
        if self.file(one).parent.is_dir() and not os.listdir(self.file(one).parent):
            self.file(one).parent.rmdir()

    def truth(self) -> set[tuple[str, str]]:
        """What a look at every file finds."""
        found = set()
        for path in self.entries.glob("*/*.json"):
            text = path.read_text()
            if text.endswith("}"):
                data = json.loads(text)
                found.add((f"{data['identity']}/{data['uid']}", data["version"]))
        return found

    def listing(self) -> Listing:
        return Listing(str(self.entries), str(self.database))


def shown(rows: Any) -> set[tuple[str, str]]:
    return {(row.key, row.version) for row in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_known_entries_are_listed_without_a_look_into_their_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        folder.put(entry(number))
    assert len(folder.listing().rows()) == 20
    read: list[str] = []
    whole = listing.unsealed
    monkeypatch.setattr(listing, "unsealed", lambda text: (read.append(text), whole(text))[1])
    rows = {row.uid: row for row in folder.listing().rows()}
    assert (len(rows), read) == (20, [])
    folder.put(entry(3, version="2"))
    assert ("2" in {row.version for row in folder.listing().rows()}, len(read)) == (True, 1)
    for number in range(20):
        folder.age(folder.file(entry(number)))
    assert len(folder.listing().rows()) == 20
    read.clear()
    assert (len(folder.listing().rows()), read) == (20, []), "entries that were used are read once"
    one = rows[entry(5).uid]
    assert (one.tags, one.deps) == (entry(5).tags, entry(5).deps)
    assert one.has_tags(['odd "tag"', "n-5"])
    assert not one.has_tags(["n"])
    assert one.needs(entry(4).key)


@pytest.mark.parametrize("seed", range(6))
def test_the_list_is_what_the_files_say(folder: Folder, seed: int) -> None:
    rng = random.Random(seed)
    looks = [folder.listing() for _ in range(3)]

    def damage(one: CacheEntry) -> None:
        if folder.file(one).exists():
            text = folder.file(one).read_text()
            kept = folder.file(one).stat().st_mtime_ns
            folder.file(one).write_text(text[:-5])
            if rng.random() < 0.5:
                os.utime(folder.file(one), ns=(kept, kept))

    def lose(one: CacheEntry) -> None:
        del one
        folder.database.unlink(missing_ok=True)

    def spoil(one: CacheEntry) -> None:
        del one
        folder.database.write_bytes(rng.randbytes(3000))

    def use(one: CacheEntry) -> None:
        folder.age(folder.file(one))

    acts = [folder.put, folder.put, folder.put, folder.drop, folder.drop, damage, use]
    for step in range(120):
        one = entry(rng.randrange(24), version=str(rng.randrange(3)))
        act = rng.choice([*acts, rng.choice([lose, spoil])] if step % 5 else acts)
        act(one)
        look = rng.choice([*looks, folder.listing()])
        assert shown(look.rows()) == folder.truth(), f"seed {seed}, step {step}, {act.__name__}"


def test_a_folder_that_has_just_changed_is_looked_at_again(folder: Folder) -> None:
    folder.put(entry(0))
    place = folder.file(entry(0)).parent
    now = time.time_ns()
    os.utime(place, ns=(now, now))
    folder.listing().rows()
    folder.put(entry(1))
    assert entry(0).identity == entry(1).identity
    # The clock of the disk has not ticked since.
    os.utime(place, ns=(now, now))
    assert shown(folder.listing().rows()) == folder.truth()


def test_one_look_for_a_plan(folder: Folder) -> None:
    look = folder.listing()
    folder.put(entry(0))
    assert len(look.rows()) == 1
    now = look.as_it_is_now()
    folder.put(entry(2))
    assert len(now.rows()) == 2
    folder.put(entry(4))
    assert len(now.rows()) == len(now.as_it_is_now().rows()) == 2
    assert len(look.rows()) == 3


def test_a_home_whose_name_is_no_text_is_only_slow(folder: Folder) -> None:
    for number in range(4):
        folder.put(entry(number, path=f"/home/\udcff/{number}"))
    for _ in range(2):
        assert shown(folder.listing().rows()) == folder.truth()


_LOOK_FOR_EVER = """
from cmbench.cache import listing
listing._WORTH = 1
print(flush=True)
while True:
    listing.Listing({entries!r}, {database!r}).rows()
"""


def test_looks_that_are_killed_while_others_write(folder: Folder) -> None:
    rng = random.Random(20261122)
    code = _LOOK_FOR_EVER.format(
        entries=str(folder.entries),
        database=str(folder.database),
    )
    for _ in range(4):
        looks = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=python_env())
            for _ in "ab"
        ]
        for look in looks:
            assert look.stdout is not None
            look.stdout.readline()
        for number in rng.sample(range(40), 20):
            (folder.put if rng.random() < 0.7 else folder.drop)(entry(number))
        for look in looks:
            look.send_signal(signal.SIGKILL)
            look.communicate()
        assert shown(folder.listing().rows()) == folder.truth()


def test_the_verbs_say_the_same_with_and_without_the_list(lab: Lab) -> None:
    lab.script("get-tool", cache=True, customize=TOOL, variations={"v.#": {}})
    lab.script("get-user", cache=True, customize=TOOL, deps=[{"tags": "get,tool,_v.1"}])
    for number in range(5):
        lab.run(f"get,tool,_v.{number}")
    lab.run("get,user")
    lab.run("get,tool", name="mine")
    database = lab.home / "cmbench" / "entries.db"

    def said() -> list[Any]:
        def text(verb: str, **flags: Any) -> str:
            return re.sub(r" *\d+ \w+ ago", "", lab.call(verb, "cache", **flags).out)

        return [
            text("show", cmd=["cm"]),
            lab.call("show", "cache", tags="get,tool,_v.3").answer["list"],
            text("why", tags="get,tool,_v.1"),
            lab.call("gc", "cache").answer["left"],
            text("du"),
            sorted(item["uid"] for item in lab.call("verify", "cache").answer["list"]),
        ]

    first = said()
    assert "get-user" in first[2]
    assert database.exists()
    assert said() == first
    database.unlink()
    assert said() == first
    assert lab.call("delete", "cache", tags="get,tool,_v.3", force=True).answer["removed"]
    assert lab.run("get,tool", name="mine").status["get-tool"] == "cached"
    assert len(lab.store.listed()) == 6


def test_the_list_of_a_shared_cache_is_in_the_home_that_looks(tmp_path: Path) -> None:
    owner, other = tmp_path / "owner", tmp_path / "other"
    (owner / "v1").mkdir(parents=True)
    other.mkdir()
    shared = Folder(owner / "v1")
    for number in range(4):
        shared.put(entry(number))
    before = sorted(owner.rglob("*"))
    store = CacheStore(str(other), str(owner))
    assert len(store.listed()) == len(store.entries()) == 4
    assert [one.uid for one in store.listed(lambda one: one.has_tags(["n-2"]))] == [entry(2).uid]
    assert sorted(owner.rglob("*")) == before
    assert len(list(other.glob("shared-*.db"))) == 1
