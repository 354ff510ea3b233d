"""The real client and the real server, each killed at many moments of uploads and withdrawals."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crowd_lab import Logs, Served, really_measured

from cmbench_crowd import manifest as m
from cmbench_crowd.client_home import ClientHome
from cmbench_crowd_server.files import Files
from cmbench_crowd_server.ledger import Ledger, manifest_of
from cmbench_results import query
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store
from support import HANG_S, python_env

KILLS = int(os.environ.get("CMBENCH_KILLS", "2"))
"""The usual run kills at few moments, ``CMBENCH_KILLS=100`` at all that are asked for."""
RESULTS = 3
CLIENT = """
import sys
from pathlib import Path
from cmbench_crowd import contribute, http_client
from cmbench_crowd.client_home import ClientHome
from cmbench_crowd.contribute import UploadOptions
from cmbench_crowd.http_client import RetryPolicy, CrowdClient
root, url, what, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
http_client.CHUNK = 8192
patience = RetryPolicy(3, 0.02, 2, 5)
print("go", flush=True)
if what == "withdraw":
    contribute.withdrawn(root, "all", patience)
else:
    wish, kept = UploadOptions(consent=3, yes=True), ClientHome(root)
    for name in names:
        draft, place = contribute.drafted(root, name, wish)
        parcel = contribute.packed(kept, draft, place)
        contribute.sent(kept, parcel, place, CrowdClient.at(url, "", patience), print)
"""


class Killer:
    """A server and a client of it, one of which dies while the other works."""

    def __init__(self, served: Served, root: Path) -> None:
        self.served, self.root = served, root
        self.names = sorted(
            e.uid for p in SourceFiles(root).readable()[0] for e in SourceFiles(root).results(p)
        )
        self.chance = random.Random(17)
        self.server, self.base = served()
        self.took = 0.5

    def client(self, what: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CLIENT, str(self.root), self.base, what, *self.names]
        env = python_env()
        run = subprocess.Popen(command, env=env, text=True, stdout=-1, stderr=-1)
        assert run.stdout is not None
        assert run.stdout.readline() == "go\n"
        return run

    def kill(self, what: str, of_server: bool) -> None:
        run = self.client(what)
        time.sleep(self.chance.random() * self.took)
        (self.server if of_server else run).send_signal(signal.SIGKILL)
        if of_server:
            self.server.wait(HANG_S)
            run.communicate(timeout=HANG_S)
            self.server, self.base = self.served()
        else:
            run.communicate(timeout=HANG_S)

    def done(self, what: str, again: int = 0) -> None:
        """Let it come to its end, at last; how long that takes tells when to kill.

        What was withdrawn without a note of it here is told ``again`` times, and sent anew.
        """
        run, began = self.client(what), time.monotonic()
        _, errors = run.communicate(timeout=HANG_S)
        self.took = time.monotonic() - began
        if run.returncode and again and "has removed" in errors:
            self.done(what, again - 1)
        else:
            assert run.returncode == 0, errors


def until(does: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not does():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.05)


def test_whoever_is_killed_whenever_each_result_arrives_once(
    served: Served, logs: list[Logs], tmp_path: Path, url: str
) -> None:
    root = tmp_path / "volunteer" / "cmbench"
    for number in range(RESULTS):
        folder = tmp_path / f"out{number}"
        SourceFiles(root).add(really_measured(folder, logs[number], division="open"))
    killer = Killer(served, root)
    for number in range(KILLS):
        killer.kill("upload", of_server=number % 2 == 0)
    killer.done("upload")

    home = tmp_path / "served"
    store = Store(SourceFiles(home / "cmbench"), url)
    ledger, files = Ledger(store, b"x"), Files(home / "cmbench" / "crowd" / "files")
    # What was checked when its server was killed is checked and published by the next one.
    until(lambda: {row["state"] for row in ledger.rows()} == {"published"})
    killer.done("upload")
    rows = ledger.rows()
    assert len(rows) == RESULTS
    assert {row["tier"] for row in rows} == {"checked"}
    for row in rows:
        once = Counter(event["what"] for event in ledger.events(row["id"]))
        assert (once["received"], once["published"]) == (1, 1), once
        for each in manifest_of(row).files:
            data = files.path(row["id"], each).read_bytes()
            assert (len(data), m.digest(data)) == (each.bytes, each.sha256)
    until(lambda: len(found(store)) == RESULTS)
    assert sorted(each["value"] for each in found(store)) == sorted(row["value"] for row in rows)
    kept = [told for _, told in ClientHome(root).states()]
    assert {told["id"] for told in kept} == {row["id"] for row in rows}
    assert all(told["done"] and told["delete_token"] for told in kept)
    assert not list(files.root.rglob("*.part")), "nothing half-made is left"

    # Each time all of them are sent anew, and a key sends 60 results in an hour.
    for number in range(min(KILLS, 18)):
        killer.kill("withdraw", of_server=number % 2 == 0)
        killer.done("upload", RESULTS)
    if list(ClientHome(root).states()):
        killer.done("withdraw")
    until(lambda: found(store) == ())
    assert {row["state"] for row in ledger.rows()} == {"removed"}
    until(lambda: [path for path in files.root.rglob("*") if path.is_file()] == [])
    published = home / "cmbench" / "crowd" / "published"
    until(lambda: [path for path in published.rglob("*") if path.is_file()] == [])
    store.close()


def found(store: Store) -> Any:
    return query.find(store, query.Filter(), "", 50, 0).rows
