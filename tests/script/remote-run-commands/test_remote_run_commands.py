"""Commands on another machine, with the words of mlcflow's own test of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_lab
from ssh_lab import Ssh, missing

from support import ROOT, Home

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def machines() -> Iterator[Ssh]:
    with ssh_lab.machines() as ssh:
        yield ssh


@pytest.fixture
def there(tmp_path: Path, machines: Ssh) -> Home:
    home = Home(tmp_path, extra_env=machines.environment())
    home.register(ROOT)
    return home


def test_commands_before_and_after(there: Home, machines: Ssh) -> None:
    done = there.cm(
        *("run", "script", "--tags=remote,run,cmds,ssh", "--host=one"),
        f"--ssh_key_file={machines.folder / 'key'}",
        '--run_cmds,=echo MAIN_CMD_RAN in "$HOME"',
        "--pre_run_cmds,=echo PRE_RUN_EXECUTED > ~/pre_run_test.txt",
        "--post_run_cmds,=echo POST_RUN_EXECUTED > ~/post_run_test.txt",
    ).ok()
    home = machines.home("one")
    assert f"MAIN_CMD_RAN in {home}" in done.stdout
    assert "PRE_RUN_EXECUTED" in (home / "pre_run_test.txt").read_text()
    assert "POST_RUN_EXECUTED" in (home / "post_run_test.txt").read_text()


def test_files_there_and_back(there: Home, machines: Ssh, tmp_path: Path) -> None:
    world = tmp_path
    (world / "some data").mkdir()
    (world / "some data" / "a.txt").write_text("content", encoding="utf-8")
    there.cm(
        *("run", "script", "--tags=remote,run,cmds,ssh", "--host=two", "--shell=bash"),
        f"--files_to_copy,={world / 'some data'}",
        "--copy_directory=my artifacts",
        "--run_cmds,=[[ -d 'my artifacts' ]] && cp -r 'my artifacts/some data' back",
        f"--path_to_copy_back_files={world / 'fetched'}",
        "--files_to_copy_back,=back",
    ).ok()
    assert (world / "fetched" / "back" / "a.txt").read_text(encoding="utf-8") == "content"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--host=one", "--run_cmds,=exit 3"], "ended with status 3"),
        (["--host=nowhere", "--run_cmds,=true"], "the name is not known"),
        (["--host=one", "--run_cmds,=echo it's"], "[script-failed]"),
        (["--host=one"], "no command is given"),
        (["--host=one", "--run_cmds,=true", "--skip_host_verify"], "always checked"),
        (["--host=one", "--run_cmds,=true", "--password=x"], "list of processes"),
        (["--host=one", "--run_cmds,=true", "--files_to_copy,=/none"], "/none does not exist"),
        (["--host=-oProxyCommand=id", "--run_cmds,=true"], "is not a host"),
    ],
)
def test_what_cannot_be_is_told(there: Home, words: list[str], told: str) -> None:
    done = there.cm("run", "script", "--tags=remote,run,cmds,ssh", *words)
    assert done.status not in (0, None)
    assert told in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
