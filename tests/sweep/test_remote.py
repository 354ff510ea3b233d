"""One run of a script on another machine, with the words of mlcflow's own test of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ssh_lab
from ssh_lab import Ssh, missing

from support import Home

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def machines() -> Iterator[Ssh]:
    with ssh_lab.machines() as ssh:
        yield ssh


@pytest.fixture
def there(home: Home, machines: Ssh) -> Home:
    return replace(home, extra_env=machines.environment())


def test_a_script_runs_on_another_machine(there: Home, machines: Ssh, world: Path) -> None:
    done = there.cm(
        *("remote-run", "script", "--tags=detect,os", "--remote_host=one"),
        f"--remote_ssh_key_file={machines.folder / 'key'}",
        "--remote_pre_run_cmds,=echo REMOTE_PRE_RAN > ~/remote_pre_test.txt",
        "--remote_post_run_cmds,=echo REMOTE_POST_RAN > ~/remote_post_test.txt",
    ).ok()
    home = machines.home("one")
    assert "REMOTE_PRE_RAN" in (home / "remote_pre_test.txt").read_text()
    assert "REMOTE_POST_RAN" in (home / "remote_post_test.txt").read_text()
    record = json.loads(Path(done.stdout.rpartition("record: ")[2].strip()).read_text())
    assert record["status"] == "done"
    assert record["repositories"][0]["path"].startswith(str(home))
    assert list(home.glob(".cache/cmbench-ssh/*")) == []
    refused = there.cm("remote-run", "script", "--tags=detect,os", "--remote_hots=one")
    assert "remote_host" in refused.stderr
    refused = there.cm("remote-run", "script", "--tags=detect,os", "--remote_password=x")
    assert "ssh-copy-id" in refused.stderr
