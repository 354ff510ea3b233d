"""Mount options by which locks stay on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.lib import locks

MOUNTS = """\
21 1 0:19 / / rw - overlay overlay rw
30 21 0:50 / /home rw,relatime - nfs4 server:/home rw,vers=4.2,local_lock=none
31 21 0:51 / /old rw,relatime - nfs server:/old rw,vers=3,nolock,local_lock=all
32 30 0:52 / /home/one\\040place rw - lustre 10.0.0.1@tcp:/fs rw,localflock
33 32 0:53 / /home/one\\040place/good rw - lustre 10.0.0.1@tcp:/fs rw,flock
broken line
"""


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/home/me/CM", ""),
        ("/old/me", "nolock"),
        ("/older", ""),
        ("/home/one place/CM", "localflock"),
        ("/home/one place/good/CM", ""),
        ("/tmp", ""),
    ],
)
def test_locks_that_stay_on_one_machine_are_seen(tmp_path: Path, path: str, option: str) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS, encoding="utf-8")
    assert locks.only_here(path, str(table)) == option


def test_nothing_is_known_without_a_table(tmp_path: Path) -> None:
    assert locks.only_here("/home", str(tmp_path / "none")) == ""
