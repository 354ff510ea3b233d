"""What a user can do with the cache: look, keep, check, make room, carry it elsewhere."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.cache.cache_entry import CacheEntry, sealed, unsealed
from cmbench.cache.retention import bytes_of, seconds_of
from lab import Lab

MAKE = """
import os
def preprocess(i):
    env = i['env']
    with open('data', 'w') as stream:
        stream.write(env.get('LEVEL', 'none') * {size})
    env['{key}_FILE'] = os.path.join(os.getcwd(), 'data')
    return {{'return': 0, 'version': '1.0'}}
"""
ENTRIES = 3


@pytest.fixture
def world(lab: Lab) -> Lab:
    """``get-top`` needs ``get-base``; ``get-other`` needs nothing; all in the cache."""
    make(lab)
    for tags in ("get,top", "get,other"):
        assert lab.run(tags).answer["return"] == 0
    return lab


def make(lab: Lab) -> None:
    inputs = {"input_mapping": {"level": "LEVEL"}}
    for name, size, below in (("base", 1000, ""), ("top", 100, "base"), ("other", 10, "")):
        lab.script(
            f"get-{name}",
            cache=True,
            new_env_keys=[f"{name.upper()}_*"],
            customize=MAKE.format(size=size, key=name.upper()),
            deps=[{"tags": f"get,{below}"}] if below else [],
            **inputs,
        )


def entry(lab: Lab, script: str) -> Any:
    return next(e for e in lab.store.entries() if e.script == script)


def scripts(lab: Lab) -> list[str]:
    return sorted(e.script for e in lab.store.entries())


def used_days_ago(lab: Lab, script: str, days: float) -> None:
    stamp = time.time() - days * 86400
    os.utime(lab.store.metadata(entry(lab, script)), (stamp, stamp))


def forget_runs(lab: Lab, days: float = 100) -> None:
    stamp = time.time() - days * 86400
    for path in (lab.home / "cmbench/runs").iterdir():
        os.utime(path, (stamp, stamp))


# ---------------------------------------------------------------- show, why, pins


def test_show_reports_size_age_last_use_and_pins(world: Lab) -> None:
    used_days_ago(world, "get-base", 40)
    assert world.call("pin", "cache", tags="get,base").answer["pinned"]
    shown = world.call("show", "cache", tags="get,base")
    assert "40 d ago" in shown.out
    assert "4.0 kB" in shown.out
    assert "(pinned)" in shown.out
    data = json.loads(world.call("show", "cache", json=True).out)
    assert {d["script"]: (d["pinned"], d["shared"], d["size"]) for d in data} == {
        "get-base": (True, False, 4000),
        "get-top": (False, False, 400),
        "get-other": (False, False, 40),
    }
    one = data[0]["uid"]
    assert len(world.call("show", "cache", artifact=one[:6]).answer["list"]) == 1


def test_why_says_what_made_it_and_whether_it_is_sound(world: Lab) -> None:
    run = world.run("get,top").record["run"]
    text = world.call("why", "cache", tags="get,top").out
    unset = "it read these, which were not set:\n    LEVEL\n"
    for part in ("get-top 1.0", "sound", unset, "made with:\n    get-base", run):
        assert part in text, text
    assert "const:" not in text
    assert "laid:" not in text
    base = world.call("why", "cache", tags="get,base")
    assert f"get-top_{entry(world, 'get-top').uid}" in base.out
    Path(entry(world, "get-base").path, "data").unlink()
    found = world.call("why", "cache", tags="get,top").answer["list"][0]
    assert not found["sound"]
    assert "data is gone" in found["why_not"]
    nothing = world.call("why", "cache", tags="get,nothing")
    assert (nothing.answer["return"], nothing.answer["code"]) == (16, "entry-not-found")
    assert world.call("why", "cache").answer["code"] == "bad-value"


def test_why_names_what_was_read_in_words(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_COLOUR", "red")
    lab.script("get-part")
    lab.script(
        "get-it",
        cache=True,
        deps=[{"tags": "get,part", "names": ["part"]}],
        customize="""
import os
def preprocess(i):
    os.environ.get('APP_COLOUR'), os.environ.get('APP_SIZE'), i['env'].get('LEVEL')
    open('/no/such/place') if os.path.exists('/no/such/place') else None
    i['run_script_input'].get('depth')
    return {'return': 0}
""",
    )
    lab.run("get,it")
    text = lab.call("why", "cache", tags="get,it").out
    for part in (
        'it read:\n    the environment variable APP_COLOUR = "red"\n',
        "it read these environment variables, which were not set:\n    APP_SIZE\n",
        "it looked for these, which were not there:\n    /no\n",
        "it has these dependencies, which nothing changed:\n    part\n",
    ):
        assert part in text, text
    assert "os:" not in text
    monkeypatch.setenv("APP_COLOUR", "blue")
    why = lab.call("plan", tags="get,it", why=True).out.replace("|  .", "")
    assert 'the environment variable APP_COLOUR was "red", is "blue"' in " ".join(why.split())


def test_a_pinned_entry_is_neither_removed_nor_replaced(world: Lab) -> None:
    uid = entry(world, "get-base").uid
    world.call("pin", "cache", artifact=uid)
    removed = world.call("delete", "cache", all=True, force=True)
    assert "1 pinned entry left" in removed.out
    assert scripts(world) == ["get-base"]
    world.run("get,base", renew=True)
    assert len(world.store.entries()) == 2
    world.call("unpin", "cache", artifact=uid)
    world.call("delete", "cache", all=True, force=True)
    assert world.store.entries() == []
    assert os.listdir(world.store.place("pins")) == []


# ---------------------------------------------------------------- verify


def test_verify_reads_what_was_published(world: Lab) -> None:
    good = world.call("verify", "cache")
    assert good.answer["return"] == 0
    assert good.out.count("1 file read and compared") == ENTRIES
    path = Path(entry(world, "get-base").path, "data")
    before = path.stat()
    path.write_text("nonE" * 1000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    bad = world.call("verify", "cache")
    assert bad.answer["code"] == "cache-damaged"
    assert "data has other content" in bad.out
    assert f"cm rm cache {entry(world, 'get-base').uid}" in bad.err
    path.unlink()
    assert "data is gone" in world.call("verify", "cache", tags="get,base").out
    assert world.call("verify", "cache", tags="get,other").answer["return"] == 0


def test_verify_of_a_large_entry_reads_what_is_exported(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench.cache.inventory.ALL_BYTES", 100)
    run = (
        "echo more > more; head -c 500 /dev/zero > main; echo OUT_FILE=$PWD/main > tmp-run-env.out"
    )
    lab.script("get-x", cache=True, new_env_keys=["OUT_FILE"], run=run)
    lab.run("get,x")
    assert "1 file read and compared, 1 file compared by size" in lab.call("verify", "cache").out
    path = Path(entry(lab, "get-x").path)
    (path / "added").touch()
    assert "1 added since" in lab.call("verify", "cache").out
    os.utime(path / "more", (1, 1))
    assert "more was written to" in lab.call("verify", "cache").out


def pip(packages: Path, version: str, files: dict[str, str]) -> None:
    """What an installation leaves: the files of a package, and their list with digests."""
    listed = packages / f"tools-{version}.dist-info" / "RECORD"
    listed.parent.mkdir(parents=True)
    rows = [f"{listed.relative_to(packages)},,"]
    for name, text in files.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        told = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{name},sha256={told.rstrip('=')},{len(text)}")
    listed.write_text("\n".join(rows) + "\n")


def test_what_pip_has_replaced_in_an_environment_is_no_damage(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "made" / "x" / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "bin/python"):
        (tmp_path / "made" / "x" / name).touch()
    within = Path("x/lib/python3.11/site-packages")
    old = {"tools/__init__.py": "old\n", "tools/gone.py": "old\n", "../../../bin/tool": "old\n"}
    pip(tmp_path / "made" / within, "1", old)
    lab.script("get-x", cache=True, run=f"cp -r {tmp_path}/made/. . && touch data")
    lab.run("get,x")
    found = Path(entry(lab, "get-x").path)
    packages = found / within
    assert lab.call("verify", "cache").answer["return"] == 0

    shutil.rmtree(packages)
    pip(packages, "2", {"tools/__init__.py": "newer\n", "../../../bin/tool": "newer\n"})
    whole = lab.call("verify", "cache")
    assert whole.answer["return"] == 0, whole.out
    (packages / "tools" / "__init__.py").write_text("cut")
    assert "tools/__init__.py has 3 bytes, had 4" in lab.call("verify", "cache").out
    (found / "data").unlink()
    (found / "x" / "bin" / "python").unlink()
    damaged = lab.call("verify", "cache").out
    assert "data is gone" in damaged
    assert "x/bin/python is gone" in damaged
    next(packages.glob("*/RECORD")).write_bytes(b"\xff\0,,")
    assert "tools/gone.py is gone" in lab.call("verify", "cache").out


# ---------------------------------------------------------------- gc, du


def test_gc_shows_first_and_keeps_what_recent_runs_used(world: Lab) -> None:
    for script in ("get-base", "get-top", "get-other"):
        used_days_ago(world, script, 60)
    kept = world.call("gc", "cache", older_than="30d", yes=True)
    assert kept.answer["removed"] == []
    assert "used by the run" in next(iter(kept.answer["kept"].values()))
    forget_runs(world, 20)
    shown = world.call("gc", "cache", older_than="30d")
    assert "add --yes" in shown.out
    assert len(shown.answer["would_remove"]) == ENTRIES
    assert len(world.store.entries()) == ENTRIES
    done = world.call("gc", "cache", older_than="30d", yes=True)
    assert done.answer["freed"] == 4440
    assert world.store.entries() == []
    assert os.listdir(world.store.place("store")) == []


def test_gc_keeps_what_a_kept_entry_was_made_with(world: Lab) -> None:
    forget_runs(world)
    for script in ("get-base", "get-top", "get-other"):
        used_days_ago(world, script, 60)
    world.call("pin", "cache", tags="get,top")
    world.call("gc", "cache", older_than="30d", yes=True)
    assert scripts(world) == ["get-base", "get-top"]
    world.call("unpin", "cache", tags="get,top")
    used_days_ago(world, "get-top", 1)
    assert world.call("gc", "cache", older_than="30d").answer["would_remove"] == []


def test_gc_down_to_a_size_removes_the_least_recently_used(world: Lab) -> None:
    forget_runs(world)
    used_days_ago(world, "get-top", 3)
    used_days_ago(world, "get-base", 9)
    used_days_ago(world, "get-other", 2)
    world.call("gc", "cache", max_size="4.2kB", yes=True)
    assert scripts(world) == ["get-base", "get-other"]
    world.call("gc", "cache", max_size="1kB", yes=True)
    assert scripts(world) == ["get-other"]
    world.call("pin", "cache", all=True)
    left = world.call("gc", "cache", max_size="1B", yes=True)
    assert "pinned, in use" in left.out
    assert scripts(world) == ["get-other"]


def test_gc_collects_litter_and_old_runs(world: Lab) -> None:
    store = world.store
    for name in ("get-x_0123456789abcdef", "get-y_0000000000000000"):
        Path(store.place("store", name)).mkdir()
    Path(store.place("staging", "0000000000000000.json")).write_text("{}")
    broken = Path(store.metadata(entry(world, "get-other")))
    broken.write_text("{}")
    forget_runs(world)
    runs = world.home / "cmbench/runs"
    found = world.call("gc", "cache").answer["litter"]
    assert len(found) == 4  # one folder, metadata, its payload and its list of files
    assert len(world.call("gc", "cache", older_than="300d").answer["litter"]) == 4
    world.call("gc", "cache", older_than="90d", keep_runs="99d", yes=True)
    assert list(runs.iterdir()) == []
    assert scripts(world) == ["get-base", "get-top"]
    assert not broken.exists()
    assert world.call("verify", "cache").answer["return"] == 0
    assert len(os.listdir(store.place("store"))) == 3 - 1


def test_gc_collects_what_containers_left_but_no_file_of_their_users(lab: Lab) -> None:
    base = lab.home / "cmbench/containers/debian-01234567"
    old, new = base / "x-00000000", base / "x-11111111"
    cache, own = base / "home-1000/CM", base / "home-1000/notes.txt"
    for folder in (old, new, cache):
        folder.mkdir(parents=True)
        (folder / "file").write_text("12345")
    own.write_text("mine")
    before = time.time() - 10 * 86400
    for path in (old, cache, own):
        os.utime(path, (before, before))
    for flags in ({}, {"older_than": "30d"}, {"older_than": "1d", "keep_runs": "30d"}):
        assert lab.call("gc", "cache", yes=True, **flags).answer["litter"] == []
    done = lab.call("gc", "cache", older_than="1d", yes=True)
    assert done.answer["litter"] == [str(cache), str(old)]
    assert done.answer["freed"] == 10
    assert new.is_dir()
    assert own.is_file()
    assert not old.exists()
    assert not cache.exists()
    assert "(containers)" in lab.call("du", "cache").out


def test_gc_removes_what_a_killed_run_should_have_replaced(world: Lab) -> None:
    old = entry(world, "get-other").uid
    world.call("pin", "cache", artifact=old)
    new = world.run("get,other", renew=True).answer["entry"].rpartition("/")[2]
    forget_runs(world)
    assert world.call("gc", "cache", yes=True).answer["removed"] == []
    world.call("unpin", "cache", artifact=old)
    assert world.call("gc", "cache", yes=True).answer["removed"] == [old]
    assert entry(world, "get-other").uid == new


def test_sizes_and_times() -> None:
    assert [bytes_of(t) for t in ("7", "2GB", "1.5 MiB", "3k")] == [7, 2 * 10**9, 1572864, 3000]
    assert [seconds_of(t) for t in ("2", "1.5h", "2w", "90min")] == [172800, 5400, 1209600, 5400]


@pytest.mark.parametrize(
    "flags", [{"max_size": "big"}, {"older_than": "x"}, {"keep_runs": True}, {"older": "1d"}]
)
def test_gc_refuses_what_it_does_not_understand(world: Lab, flags: dict[str, Any]) -> None:
    refused = world.call("gc", "cache", yes=True, **flags)
    assert refused.answer["return"] == 4
    assert len(world.store.entries()) == ENTRIES


def test_du_adds_up(world: Lab) -> None:
    found = world.call("du", "cache")
    parts = {what: (number, size) for what, number, size in found.answer["parts"]}
    assert parts["get-base"] == (1, 4000)
    assert found.answer["total"] == sum(size for _, size in parts.values())
    assert "4.0 kB" in found.out
    # What a later step has installed into an entry counts in both lists.
    (entry,) = (entry for entry in world.store.entries() if entry.script == "get-base")
    Path(entry.path, "installed-later").write_bytes(b"x" * 5000)
    listed = world.call("show", "cache", cmd=["cm"]).out
    (line,) = (line for line in listed.splitlines() if line.startswith("get-base "))
    grown = {what: size for what, _, size in world.call("du", "cache").answer["parts"]}
    assert (grown["get-base"], " 9.0 kB " in line) == (9000, True)


# ---------------------------------------------------------------- a shared cache


def second(lab: Lab, tmp_path: Path) -> Lab:
    """Another user: the same scripts in another checkout, a home of their own."""
    root = tmp_path / "second"
    root.mkdir()
    other = Lab(root)
    shutil.rmtree(other.repo)
    shutil.copytree(lab.repo, other.repo)
    return other


def snapshot(path: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in path.rglob("*")}


def test_a_shared_cache_answers_and_is_never_written_to(
    world: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = second(world, tmp_path)
    shared = world.home / "cmbench"
    monkeypatch.setenv("CMBENCH_SHARED", str(shared))
    before = snapshot(shared)
    hit = other.run("get,top")
    assert hit.answer["cached"], hit.record["steps"]
    assert hit.env["TOP_FILE"].startswith(str(shared))
    shown = other.call("show", "cache")
    assert shown.out.count("(shared)") == ENTRIES
    assert other.run("get,top", renew=True).answer["cached"] is False
    assert other.run("get,top").env["TOP_FILE"].startswith(str(other.home))
    assert other.call("pin", "cache", tags="get,other").answer["return"] == 4
    removed = other.call("delete", "cache", all=True, force=True).out
    assert f"{ENTRIES} entries left in the shared cache" in removed
    assert "no cache entry matches" in other.call("delete", "cache", tags="none", force=True).out
    other.call("gc", "cache", yes=True, max_size="0", keep_runs="0")
    assert "more in the shared cache" in other.call("du", "cache").out
    assert other.call("verify", "cache").answer["return"] == 0
    packed = other.call("export", "cache", all=True, output=str(tmp_path / "a.tar"))
    assert len(packed.answer["entries"]) == ENTRIES
    assert snapshot(shared) == before
    assert other.run("get,top").answer["cached"]
    monkeypatch.setenv("CMBENCH_SHARED", str(tmp_path))
    assert other.run("get,top").answer["code"] == "bad-value"


def test_an_edited_script_is_not_answered_by_the_shared_cache(
    world: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = second(world, tmp_path)
    monkeypatch.setenv("CMBENCH_SHARED", str(world.home / "cmbench"))
    other.script(
        "get-base",
        cache=True,
        new_env_keys=["BASE_*"],
        customize=MAKE.format(size=2, key="BASE"),
        input_mapping={"level": "LEVEL"},
    )
    assert other.run("get,base").answer["cached"] is False
    assert other.run("get,other").answer["cached"]


# ---------------------------------------------------------------- export and import


@pytest.mark.parametrize("name", ["cache.tar.gz", "cache.tar"])
def test_an_archive_brings_entries_and_what_they_need(
    world: Lab, tmp_path: Path, name: str
) -> None:
    archive = tmp_path / name
    out = world.call("export", "cache", tags="get,top", output=str(archive))
    assert len(out.answer["entries"]) == 2
    other = second(world, tmp_path)
    done = other.call("import", "cache", input=str(archive))
    assert done.answer["return"] == 0, done.err
    assert (len(done.answer["imported"]), done.answer["not_sound_here"]) == (2, {})
    hit = other.run("get,top")
    assert hit.answer["cached"]
    assert hit.env["TOP_FILE"].startswith(str(other.home))
    assert Path(hit.env["TOP_FILE"]).read_text() == "none" * 100
    assert other.call("verify", "cache").answer["return"] == 0
    again = other.call("import", "cache", input=str(archive))
    assert (again.answer["imported"], len(again.answer["present"])) == ([], 2)
    assert other.run("get,base", level="x").answer["cached"] is False
    assert os.listdir(other.store.place("staging")) == []


def test_a_cache_that_was_lost_comes_back_at_its_place(world: Lab, tmp_path: Path) -> None:
    lab = world
    lab.script(
        "get-venv",
        cache=True,
        new_env_keys=["VENV_BIN"],
        run="""
mkdir bin empty; ln -s "$(command -v bash)" bin/sh; ln -s sh bin/again
printf '#!%s\\necho fine\\n' "$PWD/bin/sh" > bin/tool
chmod +x bin/tool; echo "VENV_BIN=$PWD/bin" > tmp-run-env.out
""",
    )
    lab.script(
        "get-found",
        cache=True,
        new_env_keys=["TOOL"],
        customize="""
import glob
def preprocess(i):
    i['env']['TOOL'] = glob.glob(i['env']['STORE'] + '/get-venv_*/bin/tool')[0]
    return {'return': 0}
""",
    )
    lab.run("get,venv")
    lab.run("get,found", env={"STORE": lab.store.place("store")})
    archive = tmp_path / "a.tar.gz"
    assert lab.call("export", "cache", all=True, output=str(archive)).answer["return"] == 0
    other = second(lab, tmp_path)
    partly = other.call("import", "cache", input=str(archive))
    assert len(partly.answer["imported"]) == ENTRIES
    reasons = sorted(partly.answer["refused"].values(), key=lambda why: "names" in why)
    assert len(reasons) == 2
    assert "contains the path where it was made" in reasons[0]
    assert "it names files of get-venv" in reasons[1]
    assert sorted(os.listdir(other.store.place("store"))) == sorted(
        os.path.basename(e.path) for e in other.store.entries()
    )
    shutil.rmtree(lab.home / "cmbench")
    assert len(lab.call("import", "cache", input=str(archive)).answer["imported"]) == 5
    hit = lab.run("get,venv")
    assert hit.answer["cached"]
    assert os.popen(hit.env["VENV_BIN"] + "/tool").read() == "fine\n"
    assert Path(hit.env["VENV_BIN"]).with_name("empty").is_dir()


def test_an_import_refuses_programs_of_another_machine(lab: Lab, tmp_path: Path) -> None:
    program = b"\x7fELF\2\1" + bytes(10) + (3).to_bytes(2, "little") + (22).to_bytes(2, "little")
    lab.script(
        "get-tool",
        cache=True,
        customize=f"""
def preprocess(i):
    with open('tool', 'wb') as stream:
        stream.write({program + bytes(44)!r})
    return {{'return': 0}}
""",
    )
    lab.script(
        "get-more",
        cache=True,
        deps=[{"tags": "get,tool"}],
        customize="def preprocess(i):\n    return {'return': 0}\n",
    )
    lab.run("get,more")
    archive = tmp_path / "a.tar"
    lab.call("export", "cache", all=True, output=str(archive))
    other = second(lab, tmp_path)
    told = other.call("import", "cache", input=str(archive))
    refused = " ".join(told.answer["context"])
    assert "its programs are for s390x" in refused
    assert "which is not here" in refused
    assert other.run("get,more").answer["cached"] is False


def test_an_import_keeps_what_an_entry_relies_on(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    lab.script(
        "get-x",
        cache=True,
        customize=f"""
def preprocess(i):
    return {{'return': 0, 'relies_on': [{str(tool)!r}]}}
""",
    )
    lab.run("get,x")
    archive = tmp_path / "a.tar"
    lab.call("export", "cache", all=True, output=str(archive))
    os.utime(tool, (1, 1))
    other = second(lab, tmp_path)
    other.call("import", "cache", input=str(archive))
    assert other.run("get,x").answer["cached"]
    tool.write_text("2")
    assert other.run("get,x").answer["cached"] is False
    third = second(lab, tmp_path / "home")
    told = third.call("import", "cache", input=str(archive))
    assert "has changed" in next(iter(told.answer["not_sound_here"].values()))
    assert third.run("get,x").answer["cached"] is False


def test_what_cannot_be_exported(world: Lab, tmp_path: Path) -> None:
    target = tmp_path / "a.tar"
    world.call("delete", "cache", tags="get,base", force=True)
    gone = world.call("export", "cache", tags="get,top", output=str(target))
    assert gone.answer["code"] == "cache-damaged"
    missing = world.call("export", "cache", tags="get,other", output="/nowhere/at/all.tar")
    assert missing.answer["return"] == 1
    assert list(tmp_path.glob("*.tar*")) == []
    assert world.call("export", "cache").answer["code"] == "bad-value"


def rewrite(archive: Path, change: Callable[[tarfile.TarInfo, bytes], Any], *more: Any) -> None:
    """Copy an archive through ``change(member, content)``, which gives new content or None."""
    with tarfile.open(archive) as old:
        members = [
            (m, (old.extractfile(m) or io.BytesIO()).read() if m.isreg() else b"") for m in old
        ]
    with tarfile.open(archive, "w") as new:
        for member, content in [*members, *more]:
            changed = change(member, content)
            if changed is not None:
                member.size = len(changed) if member.isreg() else 0
                new.addfile(member, io.BytesIO(changed))


def added(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b"harm"


@pytest.fixture
def archive(world: Lab, tmp_path: Path) -> Path:
    path = tmp_path / "a.tar"
    world.call("export", "cache", tags="get,top", output=str(path))
    return path


def keep(member: tarfile.TarInfo, content: bytes) -> bytes:
    return content


def folder_in(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        return next(m.name for m in tar if m.isdir())


def assert_nothing_came(lab: Lab, archive: Path, *codes: str) -> None:
    refused = lab.call("import", "cache", input=str(archive))
    assert refused.answer.get("code") in codes, refused.answer
    assert "Traceback" not in refused.err
    assert lab.store.entries() == []
    assert os.listdir(lab.store.place("store")) == []
    assert os.listdir(lab.store.place("staging")) == []


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../outside", tarfile.REGTYPE, ""),
        ("/outside", tarfile.REGTYPE, ""),
        ("payload/get-z_0123456789abcdef/x", tarfile.REGTYPE, ""),
        ("{0}/../../x", tarfile.REGTYPE, ""),
        ("{0}/data", tarfile.REGTYPE, ""),
        ("{0}/extra", tarfile.REGTYPE, ""),
        ("{0}/pipe", tarfile.FIFOTYPE, ""),
        ("{0}/hard", tarfile.LNKTYPE, "{0}/data"),
        ("{0}/link", tarfile.SYMTYPE, "../../../outside"),
        ("{0}/link", tarfile.SYMTYPE, "/etc/passwd"),
    ],
)
def test_members_that_would_do_harm(
    world: Lab, archive: Path, tmp_path: Path, name: str, kind: bytes, link: str
) -> None:
    folder = folder_in(archive)

    def listed(member: tarfile.TarInfo, content: bytes) -> bytes:
        # The list of the archive itself may well agree with what it holds.
        if member.name != "manifest.json" or kind != tarfile.SYMTYPE:
            return content
        manifest = unsealed(content.decode())
        manifest["files"][folder.rpartition("_")[2]]["link"] = {"link": link}
        return sealed(json.dumps(manifest)).encode()

    rewrite(archive, listed, added(name.format(folder), kind, link.format(folder)))
    assert_nothing_came(
        second(world, tmp_path), archive, "archive-unsafe", "archive-corrupt", "cannot-import"
    )
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize(
    ("field", "key"), [("new_env", "PATH"), ("new_env", "+LD_PRELOAD"), ("new_state", "site")]
)
def test_an_archive_gives_nothing_that_its_scripts_never_give(
    world: Lab, archive: Path, tmp_path: Path, field: str, key: str
) -> None:
    def changed(member: tarfile.TarInfo, content: bytes) -> bytes:
        if member.name != "manifest.json":
            return content
        manifest = unsealed(content.decode())
        manifest["entries"][0][field][key] = "/elsewhere"
        return sealed(json.dumps(manifest)).encode()

    rewrite(archive, changed)
    other = second(world, tmp_path)
    done = other.call("import", "cache", input=str(archive))
    assert f"its script never gives back {key}" in done.out + done.err
    assert "get-base" not in scripts(other)


def test_a_manifest_that_was_edited_is_noticed(world: Lab, archive: Path, tmp_path: Path) -> None:
    rewrite(archive, lambda m, c: c.replace(b"BASE_", b"BASF_") if "manifest" in m.name else c)
    other = second(world, tmp_path)
    assert other.call("import", "cache", input=str(archive)).answer["code"] == "archive-corrupt"
    assert scripts(other) == []


ODD: tuple[Any, ...] = (
    None,
    "x",
    "a\0b",
    "../../evil",
    "\ud800",
    3,
    -1.5,
    1e300,
    float("nan"),
    True,
)
ODD += (2**70, [], [1], ["x"], {}, {"x": 1}, {"x": "y"}, {"x": {"y": 2}}, [{"path": 1}])
PARTS = ("entries", "files", "needs", "relied", "roots", "made")


@pytest.mark.parametrize("name", [*CacheEntry.__annotations__, *PARTS])
def test_a_manifest_with_values_of_other_kinds(
    world: Lab, archive: Path, tmp_path: Path, name: str
) -> None:
    """Its checksum is right: what is imported must be what every verb can read."""
    other = second(world, tmp_path)
    for number, value in enumerate(ODD):
        crafted = tmp_path / f"{number}.tar"
        shutil.copy(archive, crafted)
        rewrite(crafted, partial(with_value, name=name, value=value))
        answer = other.call("import", "cache", input=str(crafted))
        code = answer.answer.get("code", "")
        assert code in ("", "archive-corrupt", "archive-unsafe", "cannot-import"), (value, code)
        if not other.store.entries():
            continue
        for verb in ("show", "du", "why", "gc"):
            found = other.call(verb, "cache", **({"tags": "get,top"} if verb == "why" else {}))
            code = found.answer.get("code", "")
            assert code in ("", "entry-not-found"), (verb, value, found.err)
        assert other.run("get,top").answer["return"] == 0, value
        other.call("delete", "cache", all=True, force=True)
        assert os.listdir(other.store.place("store")) == [], value


def with_value(member: tarfile.TarInfo, content: bytes, name: str, value: Any) -> bytes:
    """The manifest with ``value`` in a part of it, or in a field of each of its entries."""
    if member.name != "manifest.json":
        return content
    manifest = unsealed(content.decode())
    for place in [manifest] if name in PARTS else manifest["entries"]:
        place[name] = value
    return sealed(json.dumps(manifest)).encode()


def test_an_archive_that_lists_no_files_of_an_entry(
    world: Lab, archive: Path, tmp_path: Path
) -> None:
    other = second(world, tmp_path)
    other.run("get,other")
    other.call("delete", "cache", all=True, force=True)
    rewrite(archive, partial(with_value, name="files", value={}))
    assert_nothing_came(other, archive, "archive-corrupt")


def test_metadata_that_is_a_pipe_is_no_entry(world: Lab) -> None:
    for found in world.store.entries():
        Path(world.store.metadata(found)).unlink()
        os.mkfifo(world.store.metadata(found))
    assert world.call("show", "cache").answer["return"] == 0
    assert world.run("get,top").status["get-top"] == "done"
    assert world.call("gc", "cache", yes=True).answer["return"] == 0


def test_a_link_under_a_link_leads_nowhere(world: Lab, archive: Path, tmp_path: Path) -> None:
    other = second(world, tmp_path)
    other.run("get,other")
    victim = entry(other, "get-other").path
    folder = folder_in(archive)
    links = {"a": victim, "a/b": "data", "c": victim + "/x", "c2": "c/../../../.."}

    def listed(member: tarfile.TarInfo, content: bytes) -> bytes:
        if member.name != "manifest.json":
            return content
        manifest = unsealed(content.decode())
        for name, target in links.items():
            manifest["files"][folder.rpartition("_")[2]][name] = {"link": target}
        return sealed(json.dumps(manifest)).encode()

    members = [added(f"{folder}/{n}", tarfile.SYMTYPE, t) for n, t in links.items()]
    rewrite(archive, listed, *members)
    refused = other.call("import", "cache", input=str(archive))
    assert refused.answer["code"] == "archive-unsafe"
    assert os.listdir(victim) == ["data"]
    assert scripts(other) == ["get-other"]


def test_damaged_archives(world: Lab, archive: Path, tmp_path: Path) -> None:
    other = second(world, tmp_path)
    whole = archive.read_bytes()
    other.run("get,other")
    other.call("delete", "cache", all=True, force=True)
    packed = tmp_path / "p.tar.gz"
    world.call("export", "cache", tags="get,top", output=str(packed))
    gz = packed.read_bytes()
    broken = [
        gz[: len(gz) // 2],
        gz[:-2000] + b"x" * 50 + gz[-1950:],
        b"",
        b"no archive",
        whole[:3000],
    ]
    for number, data in enumerate(broken):
        path = tmp_path / f"broken{number}"
        path.write_bytes(data)
        assert_nothing_came(other, path, "archive-corrupt")
    rewrite(archive, lambda m, c: c.replace(b"none", b"evil") if m.name.endswith("data") else c)
    assert_nothing_came(other, archive, "archive-corrupt")
    rewrite(archive, lambda m, c: None if m.name.endswith("data") else c)
    assert_nothing_came(other, archive, "archive-corrupt")
    assert other.call("import", "cache", input="/no/such").answer["code"] == "file-not-found"
    assert other.call("import", "cache").answer["code"] == "bad-value"


def test_an_import_that_is_killed_leaves_nothing(world: Lab, archive: Path, tmp_path: Path) -> None:
    other = second(world, tmp_path)
    pid = os.fork()
    if not pid:
        from cmbench.cache.bundle import _Staged

        _Staged.complete = lambda *a: os._exit(9)  # type: ignore[method-assign]
        other.call("import", "cache", input=str(archive))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert len(os.listdir(other.store.place("store"))) == 2
    assert other.store.entries() == []
    assert len(other.call("import", "cache", input=str(archive)).answer["imported"]) == 2
    assert len(os.listdir(other.store.place("store"))) == 2
    assert os.listdir(other.store.place("staging")) == []


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("show", {}),
        ("why", {"all": True}),
        ("verify", {}),
        ("du", {}),
        ("gc", {}),
        ("pin", {"all": True}),
        ("unpin", {"all": True}),
        ("delete", {"all": True, "force": True}),
    ],
)
def test_every_verb_speaks_json_and_names_a_wrong_flag(
    world: Lab, verb: str, flags: dict[str, Any]
) -> None:
    assert json.loads(world.call(verb, "cache", json=True, **flags).out)
    wrong = world.call(verb, "cache", tga="x", **flags)
    assert wrong.answer["code"] == "unknown-flag"
    assert '"tags"' in wrong.err or "--tga" in wrong.err


def test_the_verbs_are_in_the_help(world: Lab) -> None:
    text = world.call("help", "cache").out
    for verb in ("show", "rm", "why", "verify", "pin", "unpin", "du", "gc", "export", "import"):
        assert f"cm {verb} cache" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_why_of_a_call_that_was_never_made(lab: Lab) -> None:
    lab.script(
        "get-level",
        cache=True,
        input_mapping={"level": "CM_LEVEL"},
        input_description={"level": {"desc": "How much"}},
        customize="def preprocess(i):\n    i['env'].get('CM_LEVEL')\n    return {'return': 0}\n",
    )
    assert "this script has made no entry yet" in lab.call("why", "cache", tags="get,level").out
    lab.run("get,level", level="1")
    told = lab.call("why", "cache", tags="get,level", level="2")
    assert told.answer["call"]["cached"] == "miss"
    assert 'CM_LEVEL was "1", is "2"' in told.out
    assert lab.call("why", "cache", tags="get,level", level="1").answer["call"]["cached"] == "hit"
    assert lab.call("why", "cache", tags="no,such,thing").answer["code"] == "entry-not-found"


def test_why_names_the_script_whose_call_it_is_about_and_what_else_fits(lab: Lab) -> None:
    for name in ("get-level-a", "get-level-b"):
        lab.script(name, tags="get,level", cache=True)
    told = lab.call("why", "cache", tags="get,level")
    assert told.out.startswith("get,level (get-level-a): not in the cache")
    assert told.answer["call"]["script"] == "get-level-a"
    assert "2 scripts have these tags; get-level-a is taken" in told.err
    assert "also: get-level-b" in told.err


def test_why_never_denies_the_entry_that_it_names(world: Lab) -> None:
    told = world.call("why", "cache", tags="get,other", version_min="0.5").out
    assert "not in the cache: no entry was made by a call like this\n" in told
    assert "other version bounds (it has 1.0)" in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80, told


# ---------------------------------------------------------------- the question before removal


@pytest.mark.parametrize(
    ("said", "code"), [("y", None), ("no", "not-confirmed"), (None, "not-confirmed")]
)
def test_rm_asks_and_an_end_of_input_is_no(
    said: str | None, code: str | None, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: str) -> str:
        if said is None:
            raise EOFError
        return said

    lab.script("get-x", cache=True)
    lab.run("get,x")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", answer)
    assert lab.call("delete", "cache", tags="get,x").answer.get("code") == code
    assert len(lab.store.entries()) == (0 if code is None else 1)
