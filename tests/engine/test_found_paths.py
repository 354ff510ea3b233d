"""``cm find`` in the command lines that CM's pages have: its output goes into other programs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cmbench.cli import dispatch as cli
from lab import Lab
from support import ROOT, Home, python_env

WORDS = ("find", "search", "list", "ls")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("filled"))
    run = 'echo one > one.txt\necho "MADE=$PWD/one.txt" > tmp-run-env.out\n'
    lab.script("get-a", run=run, cache=True, new_env_keys=["MADE"])
    lab.script("get-b", run=run, cache=True, new_env_keys=["MADE"])
    assert lab.run("get,a").env
    assert lab.run("get,b").env
    return lab


def printed(lab: Lab, capfd: pytest.CaptureFixture[str], word: str, thing: str, tags: str) -> str:
    given = {"out": "con", "action": word, "cmd": [f"--tags={tags}"], "tags": tags}
    verb = "search" if word in WORDS else word
    assert cli.handle(thing, verb, lab.cmind(), given)["return"] == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("thing", "tags", "count"),
    [("script", "get,a", 1), ("script", "get", 2), ("cache", "get,a", 1), ("cache", "get", 2)],
)
def test_a_pipe_gets_a_path_a_line(
    filled: Lab, capfd: pytest.CaptureFixture[str], word: str, thing: str, tags: str, count: int
) -> None:
    lines = printed(filled, capfd, word, thing, tags).splitlines()
    assert len(lines) == count
    assert all(Path(line).is_absolute() and Path(line).is_dir() for line in lines)
    if thing == "cache":
        assert all((Path(line) / "one.txt").is_file() for line in lines)


@pytest.mark.parametrize("thing", ["script", "cache"])
def test_a_pipe_gets_nothing_where_nothing_is_found(
    filled: Lab, capfd: pytest.CaptureFixture[str], thing: str
) -> None:
    assert printed(filled, capfd, "find", thing, "get,nothing") == ""


def test_show_is_for_people_also_on_a_pipe(filled: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(filled, capfd, "show", "cache", "get,a")
    assert "1 entry" in out
    assert "made" in out


def test_a_terminal_gets_a_table(filled: Lab) -> None:
    """The same command where a person reads what it prints."""
    main, side = pty.openpty()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lab import Lab\n"
        "lab = Lab.__new__(Lab)\n"
        f"lab.home, lab.repo = Path({str(filled.home)!r}), Path({str(filled.repo)!r})\n"
        "lab.others = []\n"
        "from cmbench.cli import dispatch as cli\n"
        "given = {'out': 'con', 'action': 'find', 'cmd': [], 'tags': 'get,a'}\n"
        "cli.handle('cache', 'search', lab.cmind(), given)\n"
    )
    env = python_env()
    done = subprocess.run([sys.executable, "-c", code], stdout=side, env=env, check=True)
    os.close(side)
    text = os.read(main, 10_000).decode()
    os.close(main)
    assert done.returncode == 0
    assert "1 entry" in text


def test_data_stay_data(filled: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    given = {"out": "con", "action": "find", "cmd": [], "tags": "get,a", "json": True}
    cli.handle("script", "search", filled.cmind(), given)
    assert json.loads(capfd.readouterr().out)[0]["alias"] == "get-a"


def test_the_shell_lines_of_the_pages(home: Home) -> None:
    """The whole program: what a person types, in the words of CM's pages."""
    home.register(ROOT)
    home.cm("find", "script", "--tags=detect,os").ok()  # cmind speaks at its first start
    line = (
        "cd `cm find script --tags=detect,os` && pwd; cm find script --tags=detect,os | wc -l; "
        'test -z "$(cm find cache --tags=no,such,entry)" && echo empty; '
        "ls $(cm find script detect-os)/meta.yaml"
    )
    shell = subprocess.run(
        ["bash", "-c", line], env=home.environment(), capture_output=True, text=True, check=True
    )
    script = ROOT / "script" / "detect-os"
    assert shell.stdout.split() == [str(script), "1", "empty", f"{script}/meta.yaml"]
