"""What a step has read in whatever way is part of its key: no wrong hits."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cmbench.format.env import fingerprint
from cmbench.format.sources import own_files, read_content
from lab import Lab

PERL = 'print "out $ENV{CM_SIZE}\\n";'
NATIVE: dict[str, tuple[str, dict[str, str]]] = {
    "a makefile": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/Makefile",
        {"Makefile": "all:\n\t@echo CM_OUT=$(CM_SIZE) > tmp-run-env.out\n"},
    ),
    "a program without an extension": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/tool > tmp-run-env.out",
        {"tool": "#!/usr/bin/env python3\nimport os\nprint('CM_OUT=' + os.environ['CM_SIZE'])\n"},
    ),
    "a perl program": (
        "perl $CM_TMP_CURRENT_SCRIPT_PATH/tool.pl > tmp-run-env.out",
        {"tool.pl": 'print "CM_OUT=$ENV{CM_SIZE}\\n";\n'},
    ),
    "arithmetic": ("echo CM_OUT=$((CM_SIZE+1)) $((NUMBER+1)) > tmp-run-env.out", {}),
    "a name put together": (
        "n=SIZE; v=CM_$n; echo CM_OUT=${!v} > tmp-run-env.out",
        {},
    ),
    "a python program in a shell script": (
        """python3 - > tmp-run-env.out <<'END'
import os
e = os.environ
print('CM_OUT=' + e.get('CM_' + 'SIZE') + e['NUMBER'])
END""",
        {},
    ),
    "all of the environment": ("echo CM_OUT=$(env | grep ^CM_SI | cut -c9-) > tmp-run-env.out", {}),
    "a shell's own list": (
        "echo CM_OUT=$(export -p | grep CM_SI | tr -d ' \"=') > tmp-run-env.out",
        {},
    ),
    "names by prefix": (
        'for v in ${!CM_S*}; do echo "CM_OUT=$(printenv $v)" > tmp-run-env.out; done',
        {},
    ),
    "awk": ('awk \'BEGIN{print "CM_OUT=" ENVIRON["NUMBER"]}\' > tmp-run-env.out', {}),
    "a name put together in awk": (
        "awk -f $CM_TMP_CURRENT_SCRIPT_PATH/p.awk > tmp-run-env.out",
        {"p.awk": 'BEGIN{n = "NUM"; print "CM_OUT=" ENVIRON[n "BER"]}\n'},
    ),
    "perl in a shell script": (
        "perl -e '$e=\\%ENV; print \"CM_OUT=$e->{NUMBER}\\n\"' > tmp-run-env.out",
        {},
    ),
    "a name on a pipe": ("echo NUMBER | xargs printenv | sed s/^/CM_OUT=/ > tmp-run-env.out", {}),
    "printenv of a variable": ("v=NUMBER; printenv $v | sed s/^/CM_OUT=/ > tmp-run-env.out", {}),
    "env by its path": (
        "/usr/bin/env | grep ^NUMBER | sed s/NUMBER/CM_OUT/ > tmp-run-env.out",
        {},
    ),
    "env with zeros": (
        "env -0 | tr '\\0' '\\n' | grep ^NUM | sed s/NUMBER/CM_OUT/ > tmp-run-env.out",
        {},
    ),
    "all that a shell has": ("declare | grep ^NUM | sed s/NUMBER/CM_OUT/ > tmp-run-env.out", {}),
    "an integer": ("declare -i x; x=NUMBER+1; echo CM_OUT=$x > tmp-run-env.out", {}),
    "old arithmetic": ("echo CM_OUT=$[NUMBER+1] > tmp-run-env.out", {}),
    "eval": ("eval echo CM_OUT='$'NUMBER > tmp-run-env.out", {}),
    "whether it is set, in make": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/M > tmp-run-env.out",
        {"M": "ifeq ($(value NUMBER),1)\nX=a\nelse\nX=b\nendif\nall:\n\t@echo CM_OUT=$(X)\n"},
    ),
    "python in a text": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.txt > tmp-run-env.out",
        {"t.txt": "import os\nprint('CM_OUT=' + os.environ['NUMBER'])\n"},
    ),
    "python past its module": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {"t.py": "import os\nprint('CM_OUT=' + getattr(os, 'env' + 'iron')['NUMBER'])\n"},
    ),
    "vars of a module": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {"t.py": "import os\nk = 'num'\nprint('CM_OUT=' + vars(os)['envi' + 'ron'][k])\n"},
    ),
    "the C library": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {
            "t.py": "import ctypes\ng = getattr(ctypes.CDLL(None), 'get' + 'env')\n"
            "g.restype = ctypes.c_char_p\nprint('CM_OUT=' + g(b'nu' + b'm').decode())\n"
        },
    ),
    "a command line of a python program": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {"t.py": "import os\nos.execvp('sh', ['sh', '-c', 'echo CM_OUT=$num'])\n"},
    ),
    "printenv of a python program": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > n; echo CM_OUT=$(cat n) > tmp-run-env.out",
        {"t.py": "import subprocess\nsubprocess.run(['printenv', 'num'])\n"},
    ),
    "all of it, by a python program": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {"t.py": "import os\nos.system('set | grep ^num= | sed s/num/CM_OUT/')\n"},
    ),
    "a script that is decoded": (
        "echo ZWNobyBDTV9PVVQ9JG51bQo= | base64 -d | sh > tmp-run-env.out",
        {},
    ),
    "eval of what a program prints": (
        'eval "$(echo ZWNobyBDTV9PVVQ9JG51bQo= | base64 -d)" > tmp-run-env.out',
        {},
    ),
    "a name put together in make": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/M > tmp-run-env.out",
        {"M": "V=nu\nall:\n\t@echo CM_OUT=$($(V)m)\n"},
    ),
    "the hash of perl by its whole name": (
        "perl $CM_TMP_CURRENT_SCRIPT_PATH/t.pl > tmp-run-env.out",
        {"t.pl": 'my $k = "num"; my %e = %main::ENV; print "CM_OUT=$e{$k}\\n";\n'},
    ),
    "command lines in a data file": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {
            "t.py": "import json, os\nos.system(json.load(open(__file__[:-2] + 'json'))[0])\n",
            "t.json": '["echo CM_OUT=$num"]',
        },
    ),
    "a program with the name of data": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.yaml > tmp-run-env.out",
        {"t.yaml": "import os\nprint('CM_OUT=' + os.environ['num'])\n"},
    ),
    "the kernel's files by a pattern": (
        "cat /proc/self/env* | tr '\\0' '\\n' | grep ^num | sed s/num/CM_OUT/ > tmp-run-env.out",
        {},
    ),
    "a list of processes": (
        "ps eww -o args= -p $$ | tr ' ' '\\n' | grep ^num= | sed s/num/CM_OUT/ > tmp-run-env.out",
        {},
    ),
    "cmake's own language": (
        "cmake -P $CM_TMP_CURRENT_SCRIPT_PATH/CMakeLists.txt 2> tmp-run-env.out",
        {"CMakeLists.txt": 'message("CM_OUT=$ENV{num}")\n'},
    ),
    "a module": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/tool.py > tmp-run-env.out",
        {
            "tool.py": "from help import get\nprint('CM_OUT=' + get('SIZE'))\n",
            "help.py": "import os\ndef get(name):\n    return os.environ['CM_' + name]\n",
        },
    ),
}


NOT_EVERYWHERE = ("cmake", "ps")


@pytest.mark.parametrize("name", NATIVE)
def test_what_a_native_script_reads_counts(lab: Lab, name: str) -> None:
    run, files = NATIVE[name]
    program = run.split()[0]
    if program in NOT_EVERYWHERE and not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run + "\n", files=files)
    lab.script("app", deps=[{"tags": "get,x"}], new_env_keys=["CM_OUT"])
    one = lab.run("app", env={"CM_SIZE": "1", "NUMBER": "1", "num": "1"}).env["CM_OUT"]
    two = lab.run("app", env={"CM_SIZE": "2", "NUMBER": "2", "num": "2"})
    assert two.env["CM_OUT"] != one
    again = lab.run("app", env={"CM_SIZE": "2", "NUMBER": "2", "num": "2"})
    assert again.status["get-x"] == "cached"


PROCESS = {
    "another name": "e = os.environ\n    found = e.get('LAB_SIZE')",
    "a copy": "e = os.environ.copy()\n    found = e['LAB_' + 'SIZE']",
    "in": "found = os.environ.get('LAB_SIZE') if 'LAB_SIZE' in os.environ else ''",
    "a variable as key": "key = 'LAB_SIZE'\n    found = os.environ[key]",
    "a key put together": "key = 'LAB_' + 'SIZE'\n    found = os.environ[key]",
    "expandvars": "found = os.path.expandvars('$LAB_SIZE')",
    "another import": "from os import getenv as ask\n    found = ask('LAB_SIZE')",
    "a program": "found = subprocess.check_output('echo $LAB_SIZE', shell=True, text=True)",
    "a program of its own": (
        "found = subprocess.check_output(['sh', os.path.join(os.path.dirname(__file__), 'tool')],"
        " text=True)"
    ),
    "a helper": "found = ask()",
}
OWN_FOLDER = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"
HOOK = (
    OWN_FOLDER
    + """
import subprocess
from lab_size_helper import ask
def preprocess(i):
    {code}
    i['env']['CM_OUT'] = found.strip()
    return {{'return': 0}}
"""
)


@pytest.mark.parametrize("name", PROCESS)
def test_what_a_hook_reads_of_the_process_counts(
    lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = "import os\ndef ask():\n    return os.environ['LAB_SIZE']\n"
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["CM_OUT"],
        customize=HOOK.format(code=PROCESS[name]),
        files={
            "lab_size_helper.py": helper if name == "a helper" else "ask = None\n",
            "tool": "echo $LAB_SIZE\n" if name == "a program of its own" else "",
        },
    )
    for size in ("1", "2"):
        monkeypatch.setenv("LAB_SIZE", size)
        monkeypatch.delitem(__import__("sys").modules, "lab_size_helper", raising=False)
        assert lab.run("get,x").env["CM_OUT"] == size
    assert lab.run("get,x").status["get-x"] == "cached"


WHOLE = {
    "str": "str(i['env'])",
    "repr": "'%r' % i['env']",
    "json": "__import__('json').dumps(i['env'])",
    "keys": "' '.join(sorted(i['env']))",
    "copy": "__import__('copy').copy(i['env']).get('CM_SIZE', '')",
    "deepcopy": "__import__('copy').deepcopy(i['env']).get('CM_SIZE', '')",
    "or": "str((i['env'] | {}).get('CM_SIZE', ''))",
    "equal": "str(i['env'] == dict(i['env'], CM_SIZE='1'))",
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_hook_reads_of_the_whole_env_counts(lab: Lab, name: str) -> None:
    body = (
        "import hashlib\ndef preprocess(i):\n"
        f"    seen = {WHOLE[name]}\n"
        "    seen = hashlib.md5(('1' if 'CM_SIZE' in seen and \"'2'\" not in seen and"
        " '\"2\"' not in seen else seen).encode()).hexdigest()\n"
        if name in ("str", "repr", "json")
        else f"def preprocess(i):\n    seen = {WHOLE[name]}\n"
    )
    body += "    i['env']['CM_OUT'] = seen\n    return {'return': 0}\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=body)
    lab.script("app", deps=[{"tags": "get,x"}], new_env_keys=["CM_OUT"])
    sizes: list[dict[str, Any]] = [{}, {"CM_SIZE": "1"}, {"CM_SIZE": "2"}]
    for env in sizes:
        found = lab.run("app", env=env)
        assert found.status["get-x"] == "done", env
        assert lab.run("app", env=env).status["get-x"] == "cached"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, "true"),
        (None, "null"),
        (["x", "y"], '["x", "y"]'),
        (1, "1"),
        ("x" * 300, fingerprint("", "x" * 300)),
    ],
)
def test_kinds_of_values_are_not_confused(lab: Lab, one: Any, other: str) -> None:
    body = "def preprocess(i):\n    i['env']['CM_OUT'] = repr(i['env']['CM_T'])\n"
    body += "    return {'return': 0}\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=body)
    first, second = (lab.run("get,x", env={"CM_T": value}).env for value in (one, other))
    assert first["CM_OUT"] != second["CM_OUT"]


def test_a_text_is_not_what_the_engine_writes_for_none(lab: Lab) -> None:
    body = "def preprocess(i):\n    i['env']['CM_OUT'] = repr(i['env'].get('CM_T'))\n"
    body += "    return {'return': 0}\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=body)
    texts = [{}, *({"CM_T": value} for value in ("\0missing", True, "\0true", '\0"\\u0000true"'))]
    assert len({lab.run("get,x", env=env).env["CM_OUT"] for env in texts}) == len(texts)


def test_why_cache_says_that_all_counts(lab: Lab) -> None:
    run = "n=SIZE; v=CM_$n; echo CM_OUT=${!v-} > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    lab.run("get,x")
    said = lab.call("why", "cache", tags="get,x", env={"CM_SIZE": "2"})
    assert "reads its whole env" in said.out + said.err


def measured(lab: Lab, size: int = 10) -> Path:
    """A script that measures with a data set below another entry; where the data lies."""
    data = f"mkdir data; head -c {size} /dev/zero > data/samples\n"
    data += "echo CM_DATA=$PWD/data > tmp-run-env.out\n"
    lab.script("get-data", cache=True, new_env_keys=["CM_DATA"], run=data)
    lab.script("get-list", cache=True, deps=[{"tags": "get,data"}], new_env_keys=["CM_DATA"])
    lab.script("app", deps=[{"tags": "get,list"}], exclusive=["machine"], run="true\n")
    assert lab.run("app").answer["return"] == 0
    return next(lab.home.rglob("samples"))


def test_a_damaged_data_set_is_no_input_of_a_measurement(lab: Lab) -> None:
    samples = measured(lab)
    samples.write_bytes(b"1" * 10)
    said = lab.run("app")
    assert said.answer["return"] != 0
    assert "get-data" in said.err
    assert "samples has other content" in said.err
    assert "cm verify cache --tags=get,data" in said.err


def test_a_data_set_that_was_only_touched_is_whole(lab: Lab) -> None:
    samples = measured(lab)
    os.utime(samples, (1, 1))
    assert lab.run("app").answer["return"] == 0


def test_packages_may_be_installed_into_an_environment_of_python(lab: Lab) -> None:
    samples = measured(lab)
    (samples.parent.parent / "pyvenv.cfg").touch()
    samples.write_bytes(b"1" * 11)
    assert lab.run("app").answer["return"] == 0


@pytest.mark.parametrize(
    "name",
    [
        *(".data", "notes.md", "linked/data", "../other/lib.sh"),
        *("README.md", "README-extra", "COPYRIGHT.txt", "tests/data", "detection_test.yaml"),
    ],
)
def test_an_edit_of_what_a_script_reads_is_noticed(lab: Lab, name: str) -> None:
    run = f"echo CM_OUT=$(cat $CM_TMP_CURRENT_SCRIPT_PATH/{name}) > tmp-run-env.out\n"
    lab.script("other")
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    elsewhere = lab.repo / "elsewhere"
    elsewhere.mkdir()
    (path / "linked").symlink_to(elsewhere)
    (path / "tests").mkdir()
    for content in ("one", "three"):
        (path / name).write_text(content + "\n")
        assert lab.run("get,x").env["CM_OUT"] == content
    assert lab.run("get,x").status["get-x"] == "cached"


def test_a_hook_that_reads_its_readme_is_run_again_after_an_edit(lab: Lab) -> None:
    hook = (
        "import os\n\n\ndef preprocess(i):\n"
        '    with open(os.path.join(i["run_script_input"]["path"], "README.md")) as file:\n'
        '        i["env"]["CM_OUT"] = file.read()\n'
        '    return {"return": 0}\n'
    )
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=hook)
    for content in ("one", "three"):
        (path / "README.md").write_text(content)
        assert lab.run("get,x").env["CM_OUT"] == content


def test_a_document_that_no_program_names_makes_nothing_anew(lab: Lab) -> None:
    run = "# see https://example.org/COPYRIGHT.md\necho CM_OUT=1 > tmp-run-env.out\n"
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for content in ("one", "three"):
        for name in ("README.md", "COPYRIGHT.md"):
            (path / name).write_text(content)
        assert lab.run("get,x").status["get-x"] == ("done" if content == "one" else "cached")


@pytest.mark.parametrize(
    "name",
    [
        *(".vscode/settings.json", ".idea/x.iml", ".ruff_cache/0.1/x", ".mypy_cache/3.11/x.json"),
        *("#run.sh#", ".#run.sh", ".run.sh.kate-swp", ".run.sh.swp", "run.sh~", "run.sh.orig"),
        *("run.sh.rej", ".nfs000000000001", ".fuse_hidden0001", "sub/.DS_Store", "sub/.nfs01"),
        *(".ipynb_checkpoints/x.ipynb", ".tox/x", ".coverage", "sub/.run.sh.un~"),
    ],
)
def test_what_editors_and_tools_leave_makes_nothing_anew(lab: Lab, name: str) -> None:
    path = lab.script("get-x", cache=True, run="true\n", files={"sub/data": "1"})
    lab.run("get,x")
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text("x")
    assert lab.run("get,x").status["get-x"] == "cached"


@pytest.mark.parametrize("name", ["data~", "data.orig", "#data#"])
def test_a_leftover_that_a_program_names_counts(lab: Lab, name: str) -> None:
    run = f"echo CM_OUT=$(cat $CM_TMP_CURRENT_SCRIPT_PATH/{name}) > tmp-run-env.out\n"
    for content in ("one", "three"):
        files = {name: content}
        lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files=files)
        assert lab.run("get,x").env["CM_OUT"] == content


def test_links_in_a_circle_and_to_nowhere_are_no_files(lab: Lab) -> None:
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], env={"CM_OUT": "1"})
    (path / "up").symlink_to(path)
    (path / "above").symlink_to(lab.repo)
    (path / "self").symlink_to(path / "self")
    (path / "nowhere").symlink_to("nothing")
    assert lab.run("get,x").env["CM_OUT"] == "1"


def test_a_link_out_of_the_repository_counts_by_where_it_leads(lab: Lab, tmp_path: Path) -> None:
    """What is behind it has no bounds, such as a data set, and is not looked into."""
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], env={"CM_OUT": "1"})
    (path / "system").symlink_to("/")
    (path / "sub").mkdir()
    (path / "sub/own").symlink_to(path / "sub")
    data = path / "data"
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        data.unlink(missing_ok=True)
        data.symlink_to(tmp_path / place)
        assert lab.run("get,x").status["get-x"] == "done"
        (tmp_path / place / "new").touch()
        assert lab.run("get,x").status["get-x"] == "cached"
    locked = str(tmp_path / "x.lock")
    assert lab.run("get,x", lock=locked).status["get-x"] == "cached"
    data.unlink()
    data.symlink_to(tmp_path / "one")
    assert "data" in lab.run("get,x", lock=locked).err


def test_a_large_file_of_a_script_counts_by_size_and_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench.format.sources._LARGEST", 1000)
    monkeypatch.setattr("cmbench.format.sources._HEAD", 100)
    path = lab.script(
        "get-x",
        cache=True,
        new_env_keys=["CM_OUT"],
        run="bash $CM_TMP_CURRENT_SCRIPT_PATH/tool > tmp-run-env.out\n",
        files={"tool": "echo CM_OUT=$CM_SIZE\nexit\n" + "x" * 2000},
    )
    large = path / "tool"
    assert lab.run("get,x", env={"CM_SIZE": "1"}).env["CM_OUT"] == "1"
    assert lab.run("get,x", env={"CM_SIZE": "2"}).env["CM_OUT"] == "2"
    large.write_text(large.read_text().replace("SIZE\n", "SIZE.\n"))
    assert lab.run("get,x", env={"CM_SIZE": "2"}).env["CM_OUT"] == "2."


def test_of_many_files_the_largest_count_by_size_and_time(tmp_path: Path) -> None:
    for number in range(40):
        with (tmp_path / f"{number:02}").open("wb") as file:
            file.truncate((1 << 20) + number)
    names = [name for name, _, _ in own_files(str(tmp_path))]
    before = read_content(str(tmp_path), names).digest
    for name in ("00", "39"):
        info = (tmp_path / name).stat()
        with (tmp_path / name).open("r+b") as file:
            file.write(b"x")
        os.utime(tmp_path / name, ns=(info.st_atime_ns, info.st_mtime_ns))
        now = read_content(str(tmp_path), names).digest
        assert (now == before) == (name == "39")
        before = now


def test_a_file_of_a_script_that_cannot_be_read_is_named(lab: Lab) -> None:
    path = lab.script("get-x", cache=True)
    (path / "memory").symlink_to("/proc/self/mem")
    failed = lab.run("get,x")
    assert failed.answer["code"] == "file-error"
    assert f"{path}/memory cannot be read" in failed.err


def test_the_content_of_a_file_that_an_input_names_counts(lab: Lab, tmp_path: Path) -> None:
    lab.script(
        "get-x",
        cache=True,
        input_description={"file": {"type": "path"}},
        input_mapping={"file": "CM_FILE"},
        new_env_keys=["CM_OUT"],
        run="echo CM_OUT=$(cat $CM_FILE) > tmp-run-env.out\n",
    )
    given = tmp_path / "given"
    for content in ("one", "three"):
        given.write_text(content)
        assert lab.run("get,x", file=str(given)).env["CM_OUT"] == content
    assert lab.run("get,x", file=str(given)).status["get-x"] == "cached"


def test_two_scripts_have_helpers_of_the_same_name(lab: Lab) -> None:
    for name in ("one", "two"):
        body = OWN_FOLDER + "import utils_of_lab\ndef preprocess(i):\n"
        body += "    i['env']['CM_OUT'] = utils_of_lab.NAME\n    return {'return': 0}\n"
        helper = {"utils_of_lab.py": f"NAME = {name!r}\n"}
        lab.script(f"get-{name}", new_env_keys=["CM_OUT"], customize=body, files=helper)
    lab.script("app", deps=[{"tags": "get,one"}, {"tags": "get,two"}], new_env_keys=["CM_OUT"])
    assert lab.run("app").env["CM_OUT"] == "two"


def test_another_script_that_now_answers_the_tags_of_a_dependency(lab: Lab) -> None:
    keys = {"new_env_keys": ["CM_OUT"]}
    lab.script("get-y", tags="get,y", cache=True, env={"CM_OUT": "old"}, **keys)
    lab.script("by-way", tags="by,way", deps=[{"tags": "get,y"}], **keys)
    lab.script("get-x", cache=True, deps=[{"tags": "by,way"}], **keys)
    lab.script("get-z", cache=True, deps=[{"tags": "get,y"}], **keys)
    lab.script("app", deps=[{"tags": "get,x"}, {"tags": "get,z"}], **keys)
    assert lab.run("app").env["CM_OUT"] == "old"
    assert lab.run("app").status["get-x"] == "cached"
    lab.script("aa-y", tags="get,y", cache=True, sort=-10, env={"CM_OUT": "new"}, **keys)
    assert "another script answers get,y now" in lab.call("why", "cache", tags="get,x").out
    assert lab.run("app").env["CM_OUT"] == "new"
    again = lab.run("app")
    assert (again.status["get-x"], again.status["get-z"]) == ("cached", "cached")


TOOL = "tool.x"
STARTS: dict[str, tuple[str, dict[str, str]]] = {
    "by its name": (f"{TOOL} > tmp-run-env.out", {}),
    "in a substitution": (f'echo "$({TOOL})" > tmp-run-env.out', {}),
    "old substitution": (f"echo `{TOOL}` > tmp-run-env.out", {}),
    "through a pipe": (f"true | {TOOL} | cat > tmp-run-env.out", {}),
    "after a condition": (f"if true; then {TOOL} > tmp-run-env.out; fi", {}),
    "behind a variable": (f'T="{TOOL}"\n$T > tmp-run-env.out', {}),
    "with another variable set": (f"A=1 B=$A {TOOL} > tmp-run-env.out", {}),
    "by env": (f"env A=1 {TOOL} > tmp-run-env.out", {}),
    "a default": (f"${{NO_TOOL:-{TOOL}}} > tmp-run-env.out", {}),
    "with limits": (f"nice -n 1 timeout 60 {TOOL} > tmp-run-env.out", {}),
    "by xargs": (f"echo | xargs {TOOL} > tmp-run-env.out", {}),
    "for each file": (f"find . -maxdepth 0 -exec {TOOL} {{}} \\; > tmp-run-env.out", {}),
    "in a list": (f"for t in no-{TOOL} {TOOL}; do command -v $t && $t > tmp-run-env.out; done", {}),
    "by a function": (f'call() {{ "$@"; }}; call {TOOL} > tmp-run-env.out', {}),
    "at the end": (f"trap '{TOOL} > tmp-run-env.out' EXIT", {}),
    "in its own session": (f"setsid -w {TOOL} > tmp-run-env.out", {}),
    "by sed": (f"echo x | sed '1e {TOOL}' | head -1 > tmp-run-env.out", {}),
    "as an interpreter": (
        "cp $CM_TMP_CURRENT_SCRIPT_PATH/p p; chmod +x p; ./p > tmp-run-env.out",
        {"p": f"#!/usr/bin/env {TOOL}\n"},
    ),
    "by what make asks": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/Makefile > tmp-run-env.out",
        {"Makefile": f"X := $(shell {TOOL})\nall:\n\t@echo $(X)\n"},
    ),
    "by a list of python": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/p.py > tmp-run-env.out",
        {"p.py": f"import subprocess\nfor t in ('true', '{TOOL}'):\n    subprocess.run([t])\n"},
    ),
    "in a longer line of python": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/p.py > tmp-run-env.out",
        {"p.py": f"import subprocess\nsubprocess.run('true && {TOOL}', shell=True)\n"},
    ),
    "looked for": (f"t=$(command -v {TOOL}) && $t > tmp-run-env.out", {}),
    "in a shell": (f"bash -c '{TOOL} > tmp-run-env.out'", {}),
    "by a makefile": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/Makefile",
        {"Makefile": f"all:\n\t@{TOOL} > tmp-run-env.out\n"},
    ),
    "by a variable of a makefile": (
        "make -s -f $CM_TMP_CURRENT_SCRIPT_PATH/rules.mk",
        {"rules.mk": f"T := {TOOL}\nall:\n\t@$(T) > tmp-run-env.out\n"},
    ),
    "by a python program": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/p.py > tmp-run-env.out",
        {"p.py": f"import subprocess\nsubprocess.run(['{TOOL}'])\n"},
    ),
    "by a program of a folder": (
        "sh $CM_TMP_CURRENT_SCRIPT_PATH/lib/p > tmp-run-env.out",
        {"lib/p": f"#!/bin/sh\n{TOOL} --version\n"},
    ),
}


def _tool(folder: Path, answer: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / TOOL).write_text(f"#!/bin/sh\necho CM_OUT={answer}\n")
    (folder / TOOL).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("name", STARTS)
def test_another_program_first_in_path_is_not_the_one_that_was_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    run, files = STARTS[name]
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run + "\n", files=files)
    lab.script("app", deps=[{"tags": "get,x"}], new_env_keys=["CM_OUT"])
    monkeypatch.setenv("PATH", _tool(tmp_path / "one", "one"))
    assert lab.run("app").env["CM_OUT"] == "one"
    assert lab.run("app").status["get-x"] == "cached"
    monkeypatch.setenv("PATH", _tool(tmp_path / "two", "two"))
    assert lab.run("app").env["CM_OUT"] == "two"
    _tool(tmp_path / "two", "three")
    assert lab.run("app").env["CM_OUT"] == "three", "the program in its place is another one"
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path / 'none'}")
    assert lab.run("app").status["get-x"] == "cached", "the same program by another PATH"


@pytest.mark.parametrize(
    "code",
    [f"run(['{TOOL}'])", f"run('{TOOL} -v', shell=True)", f"c = '{TOOL} -v'; run(c.split())"],
)
def test_a_program_that_a_hook_starts_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    code = code.replace("run(", "found = subprocess.check_output(").removesuffix(")")
    hook = (
        "import subprocess\n\n\ndef preprocess(i):\n"
        f"    {code}, text=True)\n"
        '    i["env"]["CM_OUT"] = found.strip().partition("=")[2]\n    return {"return": 0}\n'
    )
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=hook)
    for folder in ("one", "two"):
        monkeypatch.setenv("PATH", _tool(tmp_path / folder, folder))
        assert lab.run("get,x").env["CM_OUT"] == folder


def test_a_program_that_was_not_there_is_found_once_it_is(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = f"echo CM_OUT= > tmp-run-env.out; ! command -v {TOOL} || {TOOL} > tmp-run-env.out\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    assert lab.run("get,x").env["CM_OUT"] == ""
    assert lab.run("get,x").status["get-x"] == "cached"
    monkeypatch.setenv("PATH", _tool(tmp_path / "one", "one"))
    assert lab.run("get,x").env["CM_OUT"] == "one"


@pytest.mark.parametrize("pattern", ["*.md", "READ*", "R*.m?"])
def test_a_document_that_a_pattern_of_a_program_fits_counts(lab: Lab, pattern: str) -> None:
    run = f"echo CM_OUT=$(cat $CM_TMP_CURRENT_SCRIPT_PATH/{pattern}) > tmp-run-env.out\n"
    path = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    for content in ("one", "three"):
        (path / "README.md").write_text(content)
        assert lab.run("get,x").env["CM_OUT"] == content
    assert lab.run("get,x").status["get-x"] == "cached"


FILES: dict[str, tuple[str, dict[str, str]]] = {
    "by its whole path": ("echo CM_OUT=$(cat {place}) > tmp-run-env.out", {}),
    "quoted, in a test": ('[ -f "{place}" ] && echo CM_OUT=$(< "{place}") > tmp-run-env.out', {}),
    "sourced": (". {place}.sh; echo CM_OUT=$X > tmp-run-env.out", {}),
    "by a variable": ("F=$HOME; echo CM_OUT=$(cat $F/.labrc) > tmp-run-env.out", {}),
    "by a default": (
        "echo CM_OUT=$(cat ${{NO_PLACE:-$HOME/.config}}/lab) > tmp-run-env.out",
        {},
    ),
    "by a pattern": ("echo CM_OUT=$(cat ~/.config/l*) > tmp-run-env.out", {}),
    "of a user's shell": ("bash -lc 'echo CM_OUT=$X' > tmp-run-env.out", {}),
    "in the home folder": ("echo CM_OUT=$(cat ~/.labrc) > tmp-run-env.out", {}),
    "in $HOME": ('echo CM_OUT=$(cat "${{HOME}}/.labrc") > tmp-run-env.out', {}),
    "a program": ("{place}.sh > tmp-run-env.out; echo CM_OUT=$({place}.sh) > tmp-run-env.out", {}),
    "by a python program": (
        "python3 $CM_TMP_CURRENT_SCRIPT_PATH/t.py > tmp-run-env.out",
        {"t.py": "print('CM_OUT=' + open('{place}').read())\n"},
    ),
}


def _write(place: Path, home: Path, text: str) -> None:
    place.write_text(text)
    (home / ".labrc").write_text(text)
    (home / ".config").mkdir(exist_ok=True)
    (home / ".config" / "lab").write_text(text)
    (home / ".bash_profile").write_text(f"X={text}")
    place.with_name("lab.conf.sh").write_text(f"#!/bin/sh\nX={text}\necho $X\n")
    place.with_name("lab.conf.sh").chmod(0o755)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A file outside the script, and a home folder of the user's."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return tmp_path / "lab.conf", home


@pytest.mark.parametrize("name", FILES)
def test_a_file_outside_that_a_source_names_counts(
    lab: Lab, settings: tuple[Path, Path], name: str
) -> None:
    place, home = settings
    run, files = FILES[name]
    files = {key: text.format(place=place) for key, text in files.items()}
    run = run.format(place=place) + "\n"
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files=files)
    for content in ("one", "three"):
        _write(place, home, content)
        assert lab.run("get,x").env["CM_OUT"] == content
    assert lab.run("get,x").status["get-x"] == "cached"
    _write(place, home, "four")
    assert "bytes of" in lab.call("why", "cache", tags="get,x").out


@pytest.mark.parametrize(
    "code",
    [
        "open(f\"{os.environ['HOME']}/.labrc\")",
        "open(os.environ['HOME'] + '/.labrc')",
        "open(os.path.join(HOME, '.labrc'))",
        "(pathlib.Path.home() / '.labrc').open()",
    ],
)
def test_a_file_below_home_counts_however_a_hook_names_it(
    lab: Lab, settings: tuple[Path, Path], code: str
) -> None:
    hook = (
        "import os\nimport pathlib\n\nHOME = os.path.expanduser('~')\n\n\ndef preprocess(i):\n"
        f"    i['env']['CM_OUT'] = {code}.read()\n    return {{'return': 0}}\n"
    )
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=hook)
    for content in ("one", "three"):
        _write(*settings, content)
        assert lab.run("get,x").env["CM_OUT"] == content


@pytest.mark.parametrize("code", ["i['input'].get('size')", "dict(i['input'])['size']"])
def test_what_a_hook_reads_of_the_call_counts(lab: Lab, code: str) -> None:
    hook = f"def preprocess(i):\n    i['env']['CM_OUT'] = {code}\n    return {{'return': 0}}\n"
    told = {"size": {"desc": "x"}, "other": {"desc": "y"}}
    keys = {"new_env_keys": ["CM_OUT"], "input_description": told}
    lab.script("get-x", cache=True, customize=hook, **keys)
    for size in ("1", "2"):
        assert lab.run("get,x", size=size).env["CM_OUT"] == size
    assert lab.run("get,x", size="2").status["get-x"] == "cached"
    why = lab.call("why", "cache", tags="get,x", size="3").out
    assert '--size was "2", is "3"' in why
    # Who looks at all of it has seen which flags there are.
    again = lab.run("get,x", size="2", other="9").status["get-x"]
    assert again == ("done" if "dict" in code else "cached")


@pytest.mark.parametrize("code", ["os.uname().nodename", "socket.gethostname()", "native"])
def test_the_name_of_the_machine_counts_where_a_step_asks_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    if code == "native":
        run = "python3 -c 'import os; print(\"CM_OUT=\" + os.uname().nodename)' > tmp-run-env.out\n"
        lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=f"hostname\n{run}")
    else:
        hook = (
            f"import os\nimport socket\n\n\ndef preprocess(i):\n    i['env']['CM_OUT'] = {code}\n"
        )
        hook += "    return {'return': 0}\n"
        lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=hook)
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"
    known = os.uname()
    other = os.uname_result((known.sysname, "other", *known[2:]))
    monkeypatch.setattr(os, "uname", lambda: other)
    assert lab.run("get,x").status["get-x"] == "done"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (":", "GLOBIGNORE"),
        (": '%(%H)T'", "TZ"),
        ("ls -l", "TIME_STYLE"),
        ("tar xf a.tar", "TAR_OPTIONS"),
        ("xz -d a", "XZ_DEFAULTS"),
        ("git clone a", "GIT_CONFIG_COUNT"),
        ("pip install x", "PIP_INDEX_URL"),
        ("perl -e 1", "TZ"),
        ("python3.11 -V", "PYTHONUSERBASE"),
        ("make -s", "CFLAGS"),
        ("cmake --build .", "CXX"),
        ("gcc -c x.c", "CPATH"),
        ("python3.11 -V", "PYTHONPATH"),
        ("pip install x", "PIP_CONSTRAINT"),
        ("nvcc x.cu", "NVCC_APPEND_FLAGS"),
        ("date -d @0", "TZ"),
    ],
)
def test_what_a_program_looks_at_by_itself_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: str, name: str
) -> None:
    tool = tmp_path / run.split(maxsplit=1)[0]
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    run = f"{run}\npython3 $CM_TMP_CURRENT_SCRIPT_PATH/t.csv > tmp-run-env.out\n"
    code = f"import os\nprint('CM_OUT=' + os.environ['{name}'])\n"  # what no source shows
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files={"t.csv": code})
    for content in ("-O1", "-O3"):
        monkeypatch.setenv(name, content)
        assert lab.run("get,x").env["CM_OUT"] == content
    assert lab.run("get,x").status["get-x"] == "cached"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("pathlib.Path.home()", "HOME"),
        ("os.path.expanduser('~')", "HOME"),
        ("pathlib.Path('~').expanduser()", "HOME"),
        ("os.path.expanduser(os.path.join('~', 'x', '..')).removesuffix('/x/..')", "HOME"),
        ("getpass.getuser()", "LOGNAME"),
        ("os.get_exec_path()[-1]", "PATH"),
        ('urllib.request.getproxies()["http"]', "http_proxy"),
    ],
)
@pytest.mark.parametrize("native", [False, True])
def test_what_a_function_of_python_looks_at_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, name: str, native: bool
) -> None:
    head = "import getpass, os, pathlib, urllib.request\n"
    if native:
        run = "python3 $CM_TMP_CURRENT_SCRIPT_PATH/p.py > tmp-run-env.out\n"
        files = {"p.py": f"{head}print('CM_OUT=' + str({code}))\n"}
        lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run, files=files)
    else:
        hook = f"{head}\n\ndef preprocess(i):\n    i['env']['CM_OUT'] = str({code})\n"
        hook += "    return {'return': 0}\n"
        lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], customize=hook)
    path = os.environ["PATH"]
    for word in ("one", "two"):
        (tmp_path / word).mkdir()
        place = str(tmp_path / word)
        value = {"LOGNAME": word, "PATH": f"{path}:{place}"}.get(name, place)
        monkeypatch.setenv(name, value)
        assert lab.run("get,x").env["CM_OUT"] == value.rpartition(":")[2]
    assert lab.run("get,x").status["get-x"] == "cached"


def _both(folder: Path) -> Path:
    """A link to the first of two programs of one size and time, which tell their names."""
    for name in ("one", "two"):
        place = folder / name
        place.mkdir()
        (place / TOOL).write_text(f"#!/bin/sh\necho CM_OUT={name}\n")
        (place / TOOL).chmod(0o755)
        os.utime(place / TOOL, (10**9, 10**9))
    (folder / "here").symlink_to("one")
    return folder / "here"


LINKED = {
    "a program in PATH": {"run": f"{TOOL} > tmp-run-env.out\n"},
    "a file that an input names": {
        "run": "$CM_IN > tmp-run-env.out\n",
        "input_mapping": {"in": "CM_IN"},
        "input_description": {"in": {"desc": "it", "type": "path", "must_be": "file"}},
    },
    "a file that a hook relies on": {
        "input_mapping": {"at": "CM_AT"},
        "customize": "def preprocess(i):\n    path = i['env']['CM_AT']\n"
        "    text = open(path).read()\n    i['env']['CM_OUT'] = text.strip().partition('=')[2]\n"
        "    return {'return': 0, 'relies_on': [path]}\n",
    },
}


@pytest.mark.parametrize("name", LINKED)
def test_where_a_link_leads_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "tools").mkdir()
    here = _both(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], **LINKED[name])
    flags = {"in": str(here / TOOL)} if "file" in name else {}
    if "relies" in name:
        flags = {"at": str(here / TOOL)}
    assert lab.run("get,x", **flags).env["CM_OUT"] == "one"
    assert lab.run("get,x", **flags).status["get-x"] == "cached"
    here.unlink()
    here.symlink_to("two")
    assert lab.run("get,x", **flags).env["CM_OUT"] == "two"


WRITTEN: dict[str, dict[str, Any]] = {
    "run.sh": {"run": "echo CM_OUT=one > tmp-run-env.out\n"},
    "lib/h.sh": {
        "run": ". $CM_TMP_CURRENT_SCRIPT_PATH/lib/h.sh\n",
        "files": {"lib/h.sh": "echo CM_OUT=one > tmp-run-env.out\n"},
    },
    "customize.py": {
        "customize": "def preprocess(i):\n    i['env']['CM_OUT'] = 'one'\n"
        "    return {'return': 0}\n"
    },
    "helper.py": {
        "customize": "import helper\ndef preprocess(i):\n    i['env']['CM_OUT'] = helper.OUT\n"
        "    return {'return': 0}\n",
        "files": {"helper.py": "OUT = 'one'\n"},
    },
    "the meta": {"env": {"CM_OUT": "one"}},
}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_an_edit_that_keeps_size_and_time_is_noticed(
    lab: Lab, name: str, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who writes no compiled form has no old one.
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], **WRITTEN[name])
    path = folder / name if "." in name else next(folder.glob("*.yaml"))
    assert lab.run("get,x").env["CM_OUT"] == "one"
    before = path.stat()
    place = path if in_place else path.with_name("other")
    place.write_text(path.read_text().replace("one", "two"))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    place.replace(path)
    assert lab.run("get,x").env["CM_OUT"] == "two"


HELD = ["{p}:{d}", '["{p}"]', "-x {p}", "-I{p}", "--tool={p}", "file://{p}", "{d} {p}"]


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("value", HELD)
def test_a_path_within_a_value_that_an_entry_gives_back_must_still_be_there(
    lab: Lab, tmp_path: Path, value: str, is_own: bool
) -> None:
    folder = "$PWD" if is_own else str(tmp_path)
    text = value.format(p=f"{folder}/given", d=folder).replace('"', '\\"')
    run = f'echo x > {folder}/given\necho "CM_OUT={text}" > tmp-run-env.out\n'
    lab.script("get-x", cache=True, new_env_keys=["CM_OUT"], run=run)
    assert lab.run("get,x").status["get-x"] == "done"
    assert lab.run("get,x").status["get-x"] == "cached"
    for given in tmp_path.rglob("given"):
        given.unlink()
    assert lab.run("get,x").status["get-x"] == "done"
