"""What a hook of ``customize.py`` really reads and starts decides whether its entry answers."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from cmbench.run import hook_observation, observation, observer
from lab import Lab

READ = {
    "a text put together": "X = open('/'.join([D, 'a.txt'])).read()",
    "bytes": "X = open(os.fsencode(F)).read()",
    "a descriptor": "X = os.read(os.open(F, os.O_RDONLY), 9).decode()",
    "after chdir": "os.chdir(D)\nX = open('a.txt').read()",
    "pathlib": "X = (pathlib.Path(D) / 'a.txt').read_text()",
    "a url": "import urllib.request\nX = urllib.request.urlopen('file://' + F).read().decode()",
    "a copy": "import shutil\nshutil.copy(F, 'copy')\nX = open('copy').read()",
    "a link that is gone": "os.symlink(F, 'link')\nX = open('link').read()\nos.remove('link')",
    "a thread": "r = []\nt = threading.Thread(target=lambda: r.append(open(F).read()))\n"
    "t.start()\nt.join()\nX = r[0]",
    "a size": "X = str(os.stat(F).st_size)",
    "pathlib's stat": "X = str(pathlib.Path(F).stat().st_size)",
    "a time": "X = str(os.path.getmtime(F))",
    "a module": "import runpy\nX = runpy.run_path(os.path.join(D, 'module.py'))['X']",
    "a module by its file": "import importlib.util\n"
    "spec = importlib.util.spec_from_file_location('module', D + '/module.py')\n"
    "module = importlib.util.module_from_spec(spec)\n"
    "spec.loader.exec_module(module)\nX = module.X",
    "a database": "import sqlite3\nX = sqlite3.connect(D + '/a.db').execute('select x from t')"
    ".fetchone()[0]",
    "a helper": "from helper import read\nX = read(F)",
    "when it is loaded": "X = EARLY",
    "when a helper is loaded": "import early\nX = early.X",
    "the argument of a program": "X = subprocess.check_output(['cat', F], text=True)",
    "the command line of a shell": "X = os.popen('cat <' + F).read()",
    "an argument from a folder": "X = subprocess.check_output(['cat', 'a.txt'], cwd=D, text=True)",
    "a command from a folder": "X = subprocess.check_output('cat <a.txt', shell=True, cwd=D)\n"
    "X = X.decode()",
    "a program in its folder": "X = subprocess.check_output(['./tool'], cwd=D, text=True).strip()",
    "a variable of a program": "E = {**os.environ, 'G': F}\n"
    "X = subprocess.check_output('cat $G', shell=True, env=E, text=True)",
    "a program": "X = subprocess.check_output([D + '/tool'], text=True).strip()",
    "postprocess": "X = 'later'",
}


def _fill(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(text)
    (folder / "module.py").write_text(f"X = {text!r}\n")
    (folder / "tool").write_text(f"#!/bin/sh\necho {text}\n")
    (folder / "tool").chmod(0o755)
    (folder / "a.db").unlink(missing_ok=True)
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("create table t (x)")
        database.execute("insert into t values (?)", (text,))
    database.close()


def _hook(folder: Path, code: str, early: str = "''") -> str:
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    return f"""
import os, pathlib, subprocess, sys, threading

D = {str(folder)!r}
F = os.path.join(D, "a" + ".txt")
EARLY = {early}


def preprocess(i):
{lines}
    i["env"]["CM_OUT"] = X
    return {{"return": 0}}


def postprocess(i):
    if i["env"]["CM_OUT"] == "later":
        i["env"]["CM_OUT"] = open(F).read()
    return {{"return": 0}}
"""


@pytest.mark.parametrize("name", READ)
def test_a_file_counts_however_a_hook_reads_it(lab: Lab, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "opt"
    early = "open(F).read()" if name == "when it is loaded" else "''"
    files = {
        "helper.py": "def read(path):\n    with open(path) as file:\n        return file.read()\n",
        "early.py": f"X = open({str(folder)!r} + '/' + 'a.txt').read()\n",
    }
    code = _hook(folder, READ[name], early)
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=code, files=files)
    seen = []
    for text in ("one", "three"):
        _fill(folder, text)
        seen.append(lab.run("get,x").env["CM_OUT"])
        assert lab.run("get,x").status["get-x"] == "cached"
    assert seen[0] != seen[1], seen


@pytest.mark.parametrize("word", ["link", "rename"])
def test_a_file_counts_to_which_a_hook_gives_a_name(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    # Below /tmp what a step has changed counts as its own.
    monkeypatch.setattr(observation, "_TEMPORARY", ())
    code = _hook(tmp_path, f"os.{word}(F, 'l')\nX = open('l').read()\nos.remove('l')")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=code)
    for text in ("one", "three"):
        (tmp_path / "b").write_text(text)
        (tmp_path / "b").replace(tmp_path / "a.txt")
        assert lab.run("get,x").env["CM_OUT"] == text


def test_a_file_counts_in_a_folder_to_which_a_hook_goes(lab: Lab, tmp_path: Path) -> None:
    code = f"""
import os


def preprocess(i):
    os.chdir({str(tmp_path / "opt")!r})
    return {{"return": 0}}


def postprocess(i):
    i["env"]["CM_LATER"] = open("module.py").read()
    return {{"return": 0}}
"""
    run = "echo CM_OUT=$(cat a.txt) > tmp-run-env.out\ndate > made\ncat made\n"
    keys = ["CM_OUT", "CM_LATER"]
    lab.script("get-x", cache=True, new_env_keys=keys, customize=code, run=run)
    for text in ("one", "three"):
        _fill(tmp_path / "opt", text)
        assert lab.run("get,x").env["CM_OUT"] == text
        assert lab.run("get,x").status["get-x"] == "cached"
    (tmp_path / "opt" / "module.py").write_text("later")
    assert lab.run("get,x").env["CM_LATER"] == "later"


NAMES = {
    "listdir": "X = str(sorted(os.listdir(D)))",
    "scandir": "X = str(sorted(entry.name for entry in os.scandir(D)))",
    "glob": "import glob\nX = str(sorted(glob.glob(D + '/*')))",
    "walk": "X = str(sorted(name for _, _, names in os.walk(D) for name in names))",
    "iterdir": "X = str(sorted(path.name for path in pathlib.Path(D).iterdir()))",
    "exists": "X = str(os.path.exists(os.path.join(D, 'late')))",
    "is_file": "X = str((pathlib.Path(D) / 'late').is_file())",
    "access": "X = str(os.access(D + '/late', os.R_OK))",
    "failing to open": "try:\n    X = open(D + '/late').read()\nexcept OSError:\n    X = 'none'",
    "which": "import shutil\nX = str(shutil.which('late', path=D))",
    "failing to start": "try:\n    X = subprocess.check_output([D + '/late'], text=True)\n"
    "except OSError:\n    X = 'none'",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_appears_counts_where_a_hook_looks_for_it(
    lab: Lab, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "opt"
    _fill(folder, "one")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=_hook(folder, NAMES[name]))
    before = lab.run("get,x").env["CM_OUT"]
    assert lab.run("get,x").status["get-x"] == "cached"
    (folder / "late").write_text("#!/bin/sh\necho late\n")
    (folder / "late").chmod(0o755)
    assert lab.run("get,x").env["CM_OUT"] != before


QUIET = {
    "a file that it writes": "open(D + '/new', 'w').write('x')\nX = 'x'",
    "a file that it makes and reads": "open(D + '/new', 'w').write('x')\n"
    "X = open(D + '/new').read()",
    "a temporary file": "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as file:\n"
    "    file.write('x')\n    file.seek(0)\n    X = file.read()",
    "its own folder": "X = str(len(os.listdir('.')))",
    "modules of Python": "import colorsys, zoneinfo\nX = str(colorsys.rgb_to_hls(0, 0, 0))",
    "state of the machine": "X = str(len(open('/proc/self/stat').read()) > 0)",
    "a started system program": "X = subprocess.check_output(['echo', 'x'], text=True)",
    "copies with their modes": "import shutil\nos.symlink('a', 'l')\n"
    "shutil.copy2('l', 'm', follow_symlinks=False)\nX = os.readlink('m')",
}


@pytest.mark.parametrize("name", QUIET)
def test_what_a_hook_uses_of_its_own_costs_no_hit(lab: Lab, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "opt"
    _fill(folder, "one")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=_hook(folder, QUIET[name]))
    assert lab.run("get,x").status["get-x"] == "done"
    (folder / "unrelated").write_text("x")
    assert lab.run("get,x").status["get-x"] == "cached"


def test_what_a_hook_has_run_counts(lab: Lab, tmp_path: Path) -> None:
    run = "    X = i['automation'].cmind.access({'action': 'run', 'automation': 'script',"
    code = run.strip() + " 'tags': 'inner', 'quiet': True})['new_env']['CM_INNER']"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=_hook(tmp_path, code))
    for is_cached in (False, True):
        for text in ("one", "three"):
            echo = f"echo CM_INNER={text}{is_cached} > tmp-run-env.out\n"
            if not (lab.repo / "script/inner").exists() or text == "three":
                (lab.repo / "script/inner/run.sh").unlink(missing_ok=True)
            lab.script("inner", cache=is_cached, new_env_keys=["CM_INNER"], run=echo)
            assert lab.run("get,x").env["CM_OUT"] == f"{text}{is_cached}"
            assert lab.run("get,x").status["get-x"] == "cached"


def test_a_variable_in_a_command_line_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    code = _hook(Path("/"), "X = os.popen('echo $' + 'LAB' + '_WORD').read().strip()")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=code)
    for text in ("one", "three"):
        monkeypatch.setenv("LAB_WORD", text)
        assert lab.run("get,x").env["CM_OUT"] == text


def test_after_a_hook_functions_of_os_are_those_of_python(lab: Lab) -> None:
    names = ("stat", "lstat", "access", "readlink")
    before = [getattr(os, name) for name in names]
    lab.script("get-x", cache=True, customize=_hook(Path("/"), "raise ValueError"))
    assert lab.run("get,x").answer["return"] != 0
    assert [getattr(os, name) for name in names] == before


def test_kinds_have_one_name_in_both_observers() -> None:
    for kind in ("STARTED", "OPENED", "LOOKED"):
        assert getattr(observer, kind) == getattr(hook_observation, kind)
