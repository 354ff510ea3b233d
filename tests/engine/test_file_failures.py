"""A file or a program that a script's own code lacks is that script's failure, not the cache's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import Lab

FAULTS = {
    "open('/nonexistent/x')": "FileNotFoundError",
    "open('there-is-none.txt')": "FileNotFoundError",
    "open('/')": "IsADirectoryError",
    "open('/etc/passwd/x')": "NotADirectoryError",
    "os.listdir('/nonexistent')": "FileNotFoundError",
    "os.mkdir('/tmp')": "FileExistsError",
    "os.rename('a', 'b')": "FileNotFoundError",
    "os.chdir('/nonexistent')": "FileNotFoundError",
    "os.symlink('a', '/tmp')": "FileExistsError",
    "os.kill(2 ** 22 + 1, 0)": "ProcessLookupError",
    "shutil.copy('/nonexistent', 'x')": "FileNotFoundError",
    "Path('/nonexistent').read_text()": "FileNotFoundError",
    "socket.create_connection(('127.0.0.1', 1), 1)": "ConnectionRefusedError",
    "subprocess.check_output(['nosuchprogram'])": "FileNotFoundError",
    "subprocess.run(['nosuchprogram', '-v'])": "FileNotFoundError",
    "subprocess.run(['/nonexistent/program'])": "FileNotFoundError",
    "subprocess.run(['true'], cwd='/nonexistent')": "FileNotFoundError",
}
HEAD = "import os, shutil, socket, subprocess\nfrom pathlib import Path\n"
DETECT = """
def preprocess(i):
    ask = {"env": i["env"], "run_script_input": i["run_script_input"]}
    return i["automation"].detect_version_using_script(ask)
def detect_version(i):
    FAULT
"""


def told(err: str) -> str:
    return " ".join(err.split())


@pytest.mark.parametrize("line", FAULTS)
def test_what_a_hook_lacks_is_told_by_its_line(lab: Lab, line: str) -> None:
    lab.script("get-x", customize=f"{HEAD}def preprocess(i):\n    {line}\n", cache=True)
    result = lab.run("get,x")
    assert result.answer["code"] == "customize-crashed", result.err
    assert f"customize.py of get-x failed: {FAULTS[line]}" in told(result.err)
    assert f"customize.py:4 in preprocess: {line}" in told(result.err)
    assert "cache was replaced" not in told(result.err)
    missing = "nosuchprogram" in line
    assert ("install nosuchprogram, which the script starts" in told(result.err)) == missing


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("preprocess", "def preprocess(i):\n    FAULT\n"),
        ("postprocess", "def postprocess(i):\n    FAULT\n"),
        ("loading", "FAULT\ndef preprocess(i):\n    return {'return': 0}\n"),
        ("helper", "import mine\ndef preprocess(i):\n    mine.fail()\n"),
        ("detect_version", DETECT),
    ],
)
@pytest.mark.parametrize("fault", ["open('/nonexistent/x')", "subprocess.run(['nosuchprogram'])"])
@pytest.mark.parametrize("dialect", ["meta.yaml", "_cm.yaml", "mlc"])
def test_in_each_place_of_a_script(
    lab: Lab, where: str, text: str, fault: str, dialect: str
) -> None:
    mine = f"{HEAD}def fail():\n    {fault}\n"
    customize = HEAD + text.replace("FAULT", fault)
    path = lab.script("get-x", customize=customize, run="true\n", files={"mine.py": mine})
    above = lab.script("above", deps=[{"tags": "get,x"}])
    if dialect == "_cm.yaml":
        for folder in (path, above):
            (folder / "meta.yaml").rename(folder / "_cm.yaml")
    elif dialect == "mlc":
        (lab.repo / "meta.yaml").write_text("alias: lab\n")
    for tags in ("get,x", "above"):
        result = lab.run(tags)
        assert result.answer["code"] == "customize-crashed", result.err
        assert "customize.py of get-x failed: FileNotFoundError" in told(result.err)
        assert "cache was replaced" not in told(result.err)


def test_what_may_not_be_written_outside_is_the_scripts(lab: Lab, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    closed = tmp_path / "closed"
    closed.mkdir(0o500)
    text = f"def preprocess(i):\n    open('{closed}/x', 'w')\n"
    lab.script("get-x", customize=text, cache=True)
    result = lab.run("get,x")
    assert result.answer["code"] == "customize-crashed"
    assert "PermissionError" in result.err
