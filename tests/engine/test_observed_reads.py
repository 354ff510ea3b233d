"""What a native step and its children really read and start decides whether its entry answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cmbench.run import observation, observer, process
from lab import Lab
from support import HANG_S


def _is_observed() -> bool:
    """Whether this machine lets a process observe its children."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        plan = json.dumps({"report": str(report), "ignored": []})
        command = [sys.executable, "-I", "-S", observer.__file__, plan, "true"]
        subprocess.run(command, check=False)
        return report.exists() and not json.loads(report.read_text())["trouble"]


pytestmark = pytest.mark.skipif(not _is_observed(), reason="the kernel refuses observation here")

SPELLINGS = {
    "cat": "X=$(cat {f})",
    "redirection": "read -r X <{f} || true",
    "redirection of a loop": "while read -r l || [ $l ]; do X=$l; l=; done <{f}",
    "substitution": "X=$(<{f})",
    "quotes in the path": 'X=$(cat "{d}"/"a.txt")',
    "braces": "X=$(cat {d}/{{a,none}}.txt 2>/dev/null || true)",
    "an option": "echo one three | grep -of{f} > out; X=$(cat out)",
    "a variable": "D={d}; X=$(cat $D/a.txt)",
    "after cd": "cd {d}; X=$(cat a.txt); cd - >/dev/null",
    "a relative path": "X=$(cat $(realpath --relative-to=. {f}))",
    "a list": "X=$(cat $(cat $CM_TMP_CURRENT_SCRIPT_PATH/list.txt))",
    "a pattern": "X=$(cat {d}/a*)",
    "a copy": "cp {f} copy; X=$(cat copy)",
    "a link": "ln -s {f} link; X=$(cat link)",
    "a link that is gone": "ln -s {f} link; X=$(cat link); rm link",
    "a url": "X=$(python3 -c 'import urllib.request as r; print(r.urlopen(\"file://{f}\").read().decode())')",
    "the folder of a process": "cd {d}; X=$(cat /proc/self/cwd/a.txt); cd - >/dev/null",
    "the root of a process": "X=$(cat /proc/self/root/{f})",
    "an open file of a process": "exec 7<{f}; X=$(cat /proc/$$/fd/7)",
    "below a folder named like a cache": "X=$(cat {d}/.cache/a.txt)",
    "tar": "tar cf a.tar -C {d} a.txt; X=$(tar xOf a.tar)",
    "python": "X=$(python3 $CM_TMP_CURRENT_SCRIPT_PATH/read.py)",
    "a threaded python": "X=$(python3 $CM_TMP_CURRENT_SCRIPT_PATH/threads.py)",
    "make": "X=$(make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/rules.mk)",
    "in the background": "setsid -w cat {f} > out; X=$(cat out)",
    "its own meta": "X=$(cat $CM_FILE)",
    "sourced": ". {d}/set.sh",
    "an interpreter": "X=$({d}/script)",
    "by its path": "X=$({d}/tool)",
    "sourced by another": "X=$(bash -c '. {d}/set.sh; echo $X')",
}


def _fill(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(text)
    (folder / "set.sh").write_text(f"X={text}\n")
    for name, first in (("tool", "/bin/sh"), ("script", folder / "interpreter")):
        (folder / name).write_text(f"#!{first}\necho {text}\n")
        (folder / name).chmod(0o755)
    (folder / ".cache").mkdir(exist_ok=True)
    (folder / ".cache" / "a.txt").write_text(text)
    (folder / "interpreter").unlink(missing_ok=True)
    (folder / "interpreter").symlink_to(shutil.which("bash") or "bash")


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_file_counts_however_it_is_named(lab: Lab, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "opt x" if name == "quotes in the path" else tmp_path / "opt"
    words = {"d": folder, "f": folder / "a.txt"}
    files = {
        "list.txt": str(words["f"]),
        "read.py": f"d = {str(folder)!r}\nprint(open(d + '/' + 'a' + '.txt').read())\n",
        "threads.py": "from concurrent.futures import ThreadPoolExecutor as E\n"
        f"print(list(E(4).map(lambda _: open({str(words['f'])!r}).read(), range(8)))[-1])\n",
        "rules.mk": f"D := {folder}\nX := $(shell cat $(D)/a.txt)\nall:\n\t@echo $(X)\n",
    }
    run = SPELLINGS[name].format(**words) + "\necho CM_OUT=$X > tmp-run-env.out\n"
    files = {key: text for key, text in files.items() if key in run}
    env = {"CM_FILE": str(words["f"])} if "CM_FILE" in run else {}
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files=files, env=env)
    for text in ("one", "three"):
        _fill(folder, text)
        assert lab.run("get,x").env["CM_OUT"].endswith(text)
    assert lab.run("get,x").status["get-x"] == "cached"


def _tool(folder: Path, answer: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "lab-tool").write_text(f"#!/bin/sh\necho {answer}\n")
    (folder / "lab-tool").chmod(0o755)


PATHS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "of a dependency": ({"new_env_keys": ["+PATH"], "env": {"+PATH": ["{d}"]}}, {}, ""),
    "of its own meta": ({}, {"env": {"+PATH": ["{d}"]}}, ""),
    "exported": ({}, {}, "export PATH={d}:$PATH; "),
    "behind all others": ({}, {}, "PATH=$PATH:{d}; "),
    "for one command": ({}, {}, "PATH={d}:$PATH "),
    "by env": ({}, {}, "env PATH={d}:/usr/bin:/bin "),
    "of a variable of a dependency": (
        {"new_env_keys": ["CM_DIR"], "env": {"CM_DIR": "{d}"}},
        {},
        "PATH=$CM_DIR:$PATH; ",
    ),
}


@pytest.mark.parametrize("change", ["edited", "appears", "shadowed"])
@pytest.mark.parametrize("name", PATHS)
def test_a_program_is_the_one_in_the_path_of_the_step(
    lab: Lab, tmp_path: Path, name: str, change: str
) -> None:
    below, own, start = (
        json.loads(json.dumps(part).replace("{d}", f"{tmp_path}/first:{tmp_path}/last"))
        for part in PATHS[name]
    )
    for folder in ("first", "last"):
        (tmp_path / folder).mkdir()
    if change != "appears":
        _tool(tmp_path / "last", "one")
    lab.script("get-dir", cache=True, **below)
    run = f"{start}lab-tool > out || echo one > out\necho CM_OUT=$(cat out) > tmp-run-env.out\n"
    keys = {"cache": True, "new_env_keys": ["CM_OUT"], "deps": [{"tags": "get,dir"}], **own}
    lab.script("get-x", run=run, **keys)
    assert lab.run("get,x").env["CM_OUT"] == "one"
    assert lab.run("get,x").status["get-x"] == "cached"
    _tool(tmp_path / ("first" if change == "shadowed" else "last"), "three")
    assert lab.run("get,x").env["CM_OUT"] == "three"


def test_a_program_counts_that_a_step_looks_for_in_another_order(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tool(tmp_path / "first", "one")
    (tmp_path / "last").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/last:{os.environ['PATH']}")
    run = f"PATH={tmp_path}/last:$PATH; echo CM_OUT=$(lab-tool) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    assert lab.run("get,x").env["CM_OUT"] == "one"
    assert lab.run("get,x").status["get-x"] == "cached"
    _tool(tmp_path / "last", "three")
    assert lab.run("get,x").env["CM_OUT"] == "three"


ABSENT = {
    "a test": "[ -f {f} ] && X=two",
    "an alternative": ". {f} 2>/dev/null || X=one",
    "a program": "X=$({f} 2>/dev/null) || X=one",
    "python": 'X=$(python3 -c \'import os; print("two" if os.path.exists("{f}") else "one")\')',
    "make": "printf -- '-include {f}\\nall:\\n\\t@echo $(or $(X),one)\\n' > m; X=$(make -sf m)",
    "a listing": "X=$(ls {d} | grep -q . && echo two || echo one)",
    "a pattern": "for f in {d}/*; do [ $f = '{d}/*' ] || X=two; done",
    "a folder on the way": "[ -e {d}/sub/deep/file ] && X=two",
    "a folder above what is missing": "[ -e {d}/file ] && [ ! -e {d}/file/none ] && X=two",
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_file_that_appears_is_noticed(lab: Lab, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "opt"
    folder.mkdir()
    path = folder / ("sub/deep/file" if "way" in name else "file")
    words = {"d": folder, "f": path}
    run = f"X=one; {ABSENT[name].format(**words)}\necho CM_OUT=$X > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    assert lab.run("get,x").env["CM_OUT"] == "one"
    assert lab.run("get,x").status["get-x"] == "cached"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/echo two\nX=two\n" if name == "a program" else "X=two\n")
    path.chmod(0o755)
    assert lab.run("get,x").env["CM_OUT"].startswith("two")
    path.unlink()
    assert lab.run("get,x").env["CM_OUT"] == "one"


def _change_mode(path: Path) -> None:
    path.chmod(0o700)


def _change_link(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy2(path, other)
    path.unlink()
    path.symlink_to(other)


def _remove(path: Path) -> None:
    path.unlink()


def test_the_kind_of_what_a_folder_lists_counts(lab: Lab, tmp_path: Path) -> None:
    lab.script("get-x", cache=True, run=f"find {tmp_path}/in -type d\n")
    for make in (Path.mkdir, Path.touch, lambda path: path.symlink_to("none")):
        path = tmp_path / "in" / "x"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        make(path)
        assert lab.run("get,x").status["get-x"] == "done"
        assert lab.run("get,x").status["get-x"] == "cached"


def test_a_folder_counts_above_a_file_that_is_missing(lab: Lab, tmp_path: Path) -> None:
    """That there is no file below a link does not show where the link leads."""
    link = tmp_path / "link"
    lab.script("get-x", cache=True, run=f"readlink {link}; ! [ -e {link}/none ]; ls {link}/\n")
    for target in ("one", "three"):
        (tmp_path / target).mkdir()
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert lab.run("get,x").status["get-x"] == "done"
        assert lab.run("get,x").status["get-x"] == "cached"


def test_a_folder_is_not_the_systems_by_its_first_letters() -> None:
    rule = observation.CountedPaths([], {"/script": frozenset()}, 0)
    report = {observer.STARTED: [], observer.LOOKED: [], observer.OPENED: ["/lib-of-lab/a/data"]}
    assert rule.names(report) == {"/lib-of-lab"}


@pytest.mark.parametrize("change", [_change_mode, _change_link, _remove])
def test_mode_target_and_existence_of_a_file_count(
    lab: Lab, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    path.chmod(0o644)
    lab.script("get-x", cache=True, run=f"stat -c %a,%N {path} || true\n")
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"
    change(path)
    assert lab.run("get,x").status["get-x"] == "done"


BESIDE = {
    "C": ('gcc -E -P -x c "$S/x.c" > out; X=$(tail -1 out)', {"x.c": '#include "../sib/data"\n'}),
    "make": ("X=$(make -sf $S/m)", {"m": "include $(S)/../sib/data.mk\nall:\n\t@echo $(X)\n"}),
    "python": (
        "X=$(python3 $S/p.py)",
        {
            "p.py": "from os.path import dirname as d, join\n"
            "print(open(join(d(d(__file__)), 'sib', 'data')).read())\n"
        },
    ),
    "a file beside": ("X=$(cat $S/../data)", {}),
    "the whole folder": ("cp -r $S copy; X=$(cat copy/README.md)", {}),
    "a leftover": ("X=$(cat $S/data~)", {}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_beside_a_script_counts(lab: Lab, name: str) -> None:
    run, files = BESIDE[name]
    run = f"export S=$CM_TMP_CURRENT_SCRIPT_PATH; {run}\necho CM_OUT=$X > tmp-run-env.out\n"
    lab.script("sib")
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files=files)
    for text in ("one", "three"):
        for place in (path.parent / "sib/data", path.parent / "data", path / "data~"):
            place.write_text(text)
        (path / "README.md").write_text(text)
        (path.parent / "sib/data.mk").write_text(f"X = {text}\n")
        assert lab.run("get,x").env["CM_OUT"] == text
    assert lab.run("get,x").status["get-x"] == "cached"


@pytest.mark.parametrize("kind", ["input", "relies_on"])
def test_files_in_a_folder_that_is_handed_in_count(lab: Lab, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    hook = "def preprocess(i):\n    return {'return': 0, 'relies_on': [i['env']['CM_DIR']]}\n"
    lab.script(
        "get-x",
        cache=True,
        input_description={"dir": {"type": "path"}},
        input_mapping={"dir": "CM_DIR"},
        new_env_keys=["CM_OUT"],
        run="echo CM_OUT=$(cat $CM_DIR/sub/file) > tmp-run-env.out\n",
        customize=hook if kind == "relies_on" else "",
    )
    for text in ("one", "three"):
        (folder / "sub/file").write_text(text)
        assert lab.run("get,x", dir=str(folder)).env["CM_OUT"] == text
    assert lab.run("get,x", dir=str(folder)).status["get-x"] == "cached"


GIVEN = ["CM_TOOL_BIN_WITH_PATH", "CM_TOOL_DIR", "+PATH"]


@pytest.mark.parametrize("by_hook", [False, True])
@pytest.mark.parametrize("key", GIVEN)
def test_what_an_entry_gives_back_must_still_be_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, by_hook: bool
) -> None:
    _tool(tmp_path / "bin", "one")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    if by_hook:
        value = "p" if "WITH" in key else "os.path.dirname(p)"
        hook = "import os\nimport shutil\n\n\ndef preprocess(i):\n"
        hook += f"    p = shutil.which('lab-tool')\n    i['env'][{key!r}] = {value}\n"
        hook += "    return {'return': 0}\n"
        lab.script("get-x", cache=True, new_env_keys=[key], customize=hook)
    else:
        value = "$p" if "WITH" in key else "$(dirname $p)"
        run = f"p=$(command -v lab-tool || true)\necho {key}={value} > tmp-run-env.out\n"
        lab.script("get-x", cache=True, new_env_keys=[key], run=run)
    lab.script("app", cache=True, deps=[{"tags": "get,x"}])
    assert lab.run("app").status["get-x"] == "done"
    assert lab.run("app").status["app"] == "cached"
    shutil.rmtree(tmp_path / "bin")
    assert "cached" not in lab.run("app").status.values()


@pytest.mark.parametrize("word", ["ln", "mv"])
def test_a_file_counts_that_gets_a_name_in_the_step(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    # Below /tmp what a step has changed counts as its own.
    monkeypatch.setattr(observation, "_TEMPORARY", ())
    run = f"{word} {tmp_path}/a mine\necho CM_OUT=$(cat mine) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for text in ("one", "three"):
        (tmp_path / "b").write_text(text)
        (tmp_path / "b").replace(tmp_path / "a")
        assert lab.run("get,x").env["CM_OUT"] == text


def test_each_of_many_files_counts(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(observation._MOST_NAMES + 10):
        (folder / str(number)).write_text("one")
    run = f"echo CM_OUT=$(cat {folder}/* | md5sum) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    before = lab.run("get,x").env["CM_OUT"]
    assert lab.run("get,x").status["get-x"] == "cached"
    (folder / "7").write_text("three")
    assert lab.run("get,x").env["CM_OUT"] != before


@pytest.mark.parametrize(
    ("name", "call", "code"),
    [
        ("read", "sh {f}", "echo $LAB_WORD\n"),
        ("read.py", "python3 {f}", "import os\nprint(os.environ['LAB_WORD'])\n"),
        ("set.sh", "echo $(. {f}; echo $Y)", "Y=$LAB_WORD\n"),
        ("Makefile", "make -s -f {f}", "all:\n\t@echo $(LAB_WORD)\n"),
        ("rules.inc", "echo 'include {f}' > m; make -s -f m", "all:\n\t@echo $(LAB_WORD)\n"),
        ("functions", ". {f}; show", "show() { echo $LAB_WORD; }\n"),
        ("print.pl", "perl {f}", "print $ENV{LAB_WORD};\n"),
        (".settings", "echo $(. {f}; echo $Y)", "Y=$LAB_WORD\n"),
        ("site.conf", "echo $(. {f}; echo $Y)", "Y=${LAB_WORD}\n"),
        ("rules", "make -s -f {f}", "all:\n\t@echo $(LAB_WORD)\n"),
    ],
)
def test_a_variable_that_a_script_outside_names_counts(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str, code: str
) -> None:
    (tmp_path / name).write_text("#!/bin/sh\n" + code if name == "read" else code)
    run = f"echo CM_OUT=$({call.format(f=tmp_path / name)}) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for text in ("one", "three"):
        monkeypatch.setenv("LAB_WORD", text)
        assert lab.run("get,x").env["CM_OUT"] == text
    monkeypatch.setenv("LAB_OTHER_WORD", text)
    assert lab.run("get,x").status["get-x"] == "cached"


def test_where_a_link_to_nothing_leads_counts(lab: Lab, tmp_path: Path) -> None:
    link = tmp_path / "link"
    run = f"echo CM_OUT=$(readlink {link}) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for target in ("none", "nowhere"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert lab.run("get,x").env["CM_OUT"] == target
    assert lab.run("get,x").status["get-x"] == "cached"


def test_where_a_link_to_a_folder_leads_counts(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "now").symlink_to(tmp_path)
    lab.script("get-x", cache=True, run=f"readlink {tmp_path}/now\n")
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"
    (tmp_path / "now").unlink()
    (tmp_path / "now").symlink_to(tmp_path.parent)
    assert lab.run("get,x").status["get-x"] == "done"


def test_a_file_that_the_step_itself_makes_costs_no_hit(lab: Lab, tmp_path: Path) -> None:
    run = f"mkdir -p {tmp_path}/made; date > {tmp_path}/made/file; cat {tmp_path}/made/file\n"
    run += "t=$(mktemp); echo 1 > $t; cat $t; rm $t; date > own; cat own\n"
    lab.script("get-x", cache=True, run=run)
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"


def test_a_step_that_cannot_be_observed_counts_all_that_path_offers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _tool(tmp_path / "bin", "one")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    run = "echo CM_OUT=$(lab-tool) > tmp-run-env.out\n"
    measures = {"exclusive": ["machine"]}
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, **measures)
    assert lab.run("get,x").env["CM_OUT"] == "one"
    assert lab.run("get,x").status["get-x"] == "cached"
    assert "not observed because it measures" in lab.call("why", "cache", tags="get,x").out
    _tool(tmp_path / "bin", "three")
    assert lab.run("get,x").env["CM_OUT"] == "three"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert lab.run("get,x").status["get-x"] == "done"


def test_a_step_that_is_not_kept_is_not_observed(lab: Lab) -> None:
    lab.script("app", new_env_keys=["CM_OUT"], run="echo CM_OUT=$PPID > tmp-run-env.out\n")
    assert lab.run("app").env["CM_OUT"] == str(os.getpid())


def _observe(
    tmp_path: Path, command: list[str], line: Callable[[str], None] = lambda _: None
) -> tuple[int, dict[str, Any]]:
    report = tmp_path / "report.json"
    plan = json.dumps({"report": str(report), "ignored": ["/proc/"]})
    words = [sys.executable, "-I", "-S", observer.__file__, plan, *command]
    environment = {**os.environ, "LAB_TMP_RUN_DIR": str(tmp_path)}
    status = process.run_process(words, str(tmp_path), environment, line, scratch=str(tmp_path))
    return status, json.loads(report.read_text())


@pytest.mark.parametrize("code", ["exit 3", "kill -9 $$", "kill -TERM $$", "exit 0"])
def test_the_status_of_a_program_is_its_own(tmp_path: Path, code: str) -> None:
    direct = process.run_process(["bash", "-c", code], "/", os.environ, lambda _: None)
    assert _observe(tmp_path, ["bash", "-c", code])[0] == direct


def test_signals_are_as_without_an_observer(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import signal as s; print([str(s.getsignal(n)) for n in range(1, 32)])"
    command = [sys.executable, "-I", "-c", code]
    process.run_process(command, "/", os.environ, lines.append)
    _observe(tmp_path, command, lines.append)
    assert lines[0] == lines[1]
    lines.clear()
    process.run_process(["env", "-0"], "/", {"A": "1", "LC_ALL": ""}, lines.append)
    _observe(tmp_path, ["env", "-0"], lines.append)
    assert "LC_CTYPE" not in lines[-1]


def test_many_short_processes_and_threads_are_followed(tmp_path: Path) -> None:
    code = "for i in $(seq 300); do (/bin/true & /bin/true); done; wait; cat <{}/last"
    (tmp_path / "last").write_text("1")
    status, report = _observe(tmp_path, ["bash", "-c", code.format(tmp_path)])
    assert status == 0
    assert str(tmp_path / "last") in report["opened"]


def test_a_program_that_is_left_behind_goes_on(tmp_path: Path) -> None:
    late = f"sleep 1; cat /etc/passwd > {tmp_path}/late; touch {tmp_path}/end"
    code = f"setsid bash -c '{late}' > /dev/null 2>&1 < /dev/null &"
    began = time.monotonic()
    assert _observe(tmp_path, ["bash", "-c", code])[0] == 0
    assert time.monotonic() - began < 60
    deadline = time.monotonic() + HANG_S
    while not (tmp_path / "end").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "late").read_text() == Path("/etc/passwd").read_text()


def test_an_interruption_ends_an_observed_step(tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise InterruptedError(line)

    code = "trap 'echo asked > asked; exit' TERM; echo $$; while :; do sleep 0.1; done"
    with pytest.raises(InterruptedError) as stopped:
        _observe(tmp_path, ["bash", "-c", code], stop)
    assert (tmp_path / "asked").exists()
    assert not Path(f"/proc/{stopped.value}").exists()


def test_below_an_observed_step_there_is_no_other_observer(tmp_path: Path) -> None:
    inner = tmp_path / "inner.json"
    plan = json.dumps({"report": str(inner), "ignored": []})
    words = [sys.executable, "-I", "-S", observer.__file__, plan, "cat", "/etc/hostname"]
    status, report = _observe(tmp_path, words)
    assert status == 0
    assert "/etc/hostname" in report["opened"]
    assert json.loads(inner.read_text())["trouble"] == "it runs below another observed step"


def test_a_killed_observer_ends_its_step(tmp_path: Path) -> None:
    lines: list[str] = []
    code = f"kill -9 $PPID; sleep 0.2; cat /etc/hostname; touch {tmp_path}/no"
    plan = json.dumps({"report": str(tmp_path / "report.json"), "ignored": []})
    words = [sys.executable, "-I", "-S", observer.__file__, plan, "bash", "-c", code]
    assert process.run_process(words, "/", os.environ, lines.append) == -9
    assert not (tmp_path / "no").exists()


def test_programs_of_32_bits_are_followed() -> None:
    code = observer.filter_code("x86_64")
    assert len(code) % 8 == 0
    assert (0x40000003).to_bytes(4, sys.byteorder) in code
    assert observer.filter_code("aarch64")
    with pytest.raises(KeyError):
        observer.filter_code("riscv64")


def _make_executable(path: Path) -> None:
    path.chmod(0o755)


def _lead_elsewhere(path: Path) -> None:
    path.with_name("second").write_text(path.read_text())
    (path.parent / "link").unlink()
    (path.parent / "link").symlink_to("second")


@pytest.mark.parametrize("change", [_make_executable, _lead_elsewhere])
def test_mode_and_target_of_a_script_s_own_file_count(
    lab: Lab, change: Callable[[Path], None]
) -> None:
    path = lab.script("get-x", cache=True, run="true\n", files={"data": "1"})
    (path / "link").symlink_to("data")
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"
    change(path / "data")
    assert lab.run("get,x").status["get-x"] == "done"


def test_what_others_put_into_a_home_or_tmp_costs_no_hit(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    run = "ls ~ $TMPDIR > /dev/null; cat ~/.config/tool/settings 2>/dev/null || echo none > own\n"
    lab.script("get-x", cache=True, run=run)
    assert lab.run("get,x").status["get-x"] == "done"
    (home / ".config/other").mkdir(parents=True)
    (home / "notes").touch()
    (tmp_path / "tmp" / "notes").touch()
    assert lab.run("get,x").status["get-x"] == "cached"
    (home / ".config/tool").mkdir()
    (home / ".config/tool/settings").write_text("x\n")
    assert lab.run("get,x").status["get-x"] == "done"


def test_a_folder_with_names_that_are_no_text_counts(lab: Lab, tmp_path: Path) -> None:
    run = f"echo CM_OUT=$(ls {tmp_path}/d | wc -l) > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for name, count in ((b"d/\xfe", "1"), (b"d/\xff", "2")):
        place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        place.parent.mkdir(exist_ok=True)
        place.touch()
        assert lab.run("get,x").env["CM_OUT"] == count
    assert lab.run("get,x").status["get-x"] == "cached"
