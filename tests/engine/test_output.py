"""Where the output goes: to a reader who leaves, onto a full disk, nowhere, or into a program."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from lab import Lab
from support import ROOT, Home

TALKS = """
import os, subprocess

def preprocess(i):
    os.system('echo by os.system')
    subprocess.run(['echo', 'by subprocess'])
    return {'return': 0}
"""


@pytest.fixture
def talking(home: Home, lab: Lab) -> Home:
    lab.script("run-talk", customize=TALKS, new_env_keys=["ANSWER"], env={"ANSWER": "x" * 200_000})
    (lab.repo / "cmr.yaml").write_text("alias: lab\nuid: '0123456789abcdef'\n")
    home.register(ROOT, lab.repo)
    home.cm(
        "version"
    ).ok()  # cmind tells of its first start, and where it does so is its own affair
    return home


def shell(home: Home, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=home.path,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_json_has_standard_output_for_itself(talking: Home) -> None:
    done = talking.cm("run", "script", "--tags=run,talk", "--out=json").ok()
    assert json.loads(done.stdout)["return"] == 0
    assert done.stderr.splitlines() == ["by os.system", "by subprocess"]


LOOKS = ("find script --tags=get", "show cache -j", "run script --tags=run,talk")


def test_a_reader_who_leaves(talking: Home) -> None:
    for words in (*LOOKS, f"{LOOKS[-1]} --out=json"):
        done = shell(talking, f"cm {words} | head -c 1")
        assert len(done.stdout) == 1
        assert "Traceback" not in done.stderr
        assert "rror" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_onto_a_full_disk(talking: Home, unbuffered: str) -> None:
    for words in LOOKS:
        # Without a buffer, what could not be written is not there to be tried again.
        done = shell(talking, f"PYTHONUNBUFFERED={unbuffered} cm {words} > /dev/full")
        assert done.returncode == 1
        assert "error [cannot-print]: the output cannot be written" in done.stderr
        assert "CM_REPOS" not in done.stderr
        assert "--debug" not in done.stderr


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", r"\u4f60bel"), ("latin-1", r"\u4f60bel"), ("utf-8:strict", "你bel")],
)
def test_what_an_encoding_lacks_ends_no_run(
    talking: Home, lab: Lab, encoding: str, shown: str
) -> None:
    lab.script("get-x", run="printf 'vor dem \\xe4\\xbd\\xa0bel\\n'; echo the end\n")
    done = shell(talking, f"PYTHONIOENCODING={encoding} cm run script --tags=get,x -v")
    assert done.returncode == 0, done.stderr
    assert f"vor dem {shown}\n" in done.stdout
    assert "the end\n" in done.stdout


def test_output_that_nobody_wants(talking: Home) -> None:
    for words in LOOKS:
        done = shell(talking, f"cm {words} >&-")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "error" not in done.stderr


def test_nothing_is_open_that_a_command_could_read_or_print_to(talking: Home) -> None:
    for words in (LOOKS[-1], f"{LOOKS[-1]} --out=json"):
        done = shell(talking, f"cm {words} <&- >&-")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "Traceback" not in done.stderr


def test_what_the_native_part_of_the_requested_script_prints(lab: Lab) -> None:
    lab.script("get-below", run="echo from below\n")
    lab.script("get-tool", cache=True, run="echo compiling\n")
    deps = [{"tags": "get,below"}, {"tags": "get,tool"}]
    lab.script("print-hello", run="echo Hello, world\necho\necho bye >&2\n", deps=deps)
    for flags in ({}, {"quiet": True}, {"verbose": True}):
        result = lab.run("print,hello", **flags)
        assert result.out.count("Hello, world\n\nbye\n") == 1, flags
        assert ("from below" in result.out) == ("verbose" in flags)
    assert "Hello" not in lab.run("print,hello", silent=True).out
    assert "Hello" not in lab.run("print,hello", out="json").out
    assert "compiling" not in lab.run("get,tool", new=True).out


@pytest.mark.parametrize("out", ["yaml", "jsn"])
def test_an_output_that_is_not_possible_is_refused_aloud(lab: Lab, out: str) -> None:
    lab.script("app-x")
    done = lab.run("app,x", out=out)
    assert done.answer["code"] == "bad-value"
    assert "write --out=json" in done.err
