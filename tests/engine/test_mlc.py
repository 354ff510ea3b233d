"""Scripts of MLC repositories: the same format by other rules, decided per repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cmbench.format.dialect import CLASSIC, CM, DIALECTS, MLC, dialect_of
from lab import Lab
from support import Home


@pytest.fixture
def mlc(lab: Lab) -> Lab:
    """A lab whose repository carries the mark of MLC."""
    (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    return lab


def test_the_file_at_the_root_decides(tmp_path: Path) -> None:
    assert dialect_of(str(tmp_path)) is CM
    assert dialect_of(str(tmp_path), "_cm.json") is CLASSIC
    (tmp_path / "cmr.yaml").touch()
    assert dialect_of(str(tmp_path)) is CM
    (tmp_path / "meta.yaml").touch()
    assert dialect_of(str(tmp_path)) is MLC  # also when `cm init repo` has added its own mark
    assert set(DIALECTS) == {"meta.yaml", "cmr.yaml"}


@pytest.mark.parametrize("tags", ["get,wxyz", "get,x,_wxyz", "get,y"])
def test_who_lacks_a_script_is_told_where_those_of_mlcommons_are(lab: Lab, tags: str) -> None:
    lab.script("get-x")
    lab.script("run-y")
    said = lab.run(tags).err
    assert "cm pull repo mlcommons@mlperf-automations" in said
    assert "did you mean" not in said
    (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    assert "mlcommons" not in lab.run(tags).err


VALUES = {
    "A": "plain",
    "CODE": r"echo \${PIPESTATUS[0]} \"q\" \\ ${PIPESTATUS[0]} $(echo bad) `echo bad` $?",
    "OTHER": "$A/${A}x/$NOWHERE/$HOME",
    "+PATH": ["$HOME/bin"],
}


@pytest.mark.parametrize("form", ["meta.yaml", "_cm.yaml", "mlc"])
def test_values_as_a_shell_reads_them(lab: Lab, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    run = """printf "%s\\n" "$CODE" "$OTHER" "${PATH%%:*}" > seen
echo "SEEN=$PWD/seen" > tmp-run-env.out
"""
    path = lab.script("get-x", run=run, env=VALUES, new_env_keys=["SEEN"], cache=True)
    if form == "_cm.yaml":
        (path / "meta.yaml").rename(path / form)
    elif form == "mlc":
        (lab.repo / "meta.yaml").write_text("alias: lab\n")
    seen = Path(lab.run("get,x").env["SEEN"]).read_text().splitlines()
    if form == "meta.yaml":
        assert seen == [VALUES["CODE"], VALUES["OTHER"], "$HOME/bin"]
    else:
        code = r'echo ${PIPESTATUS[0]} "q" \ ${PIPESTATUS[0]} $(echo bad) `echo bad` $?'
        assert seen == [code, "plain/plainx///home/me", "/home/me/bin"]


def test_what_customize_files_import(mlc: Lab) -> None:
    customize = """
from mlc import utils
import mlc
import mlc.utils as again
from utils import *
from utils import is_false, logger

def preprocess(i):
    import os
    from utils import merge_dicts
    env, automation = i['env'], i['automation']
    assert again is utils and is_true('Yes') and is_false('off') and not is_false('')
    with open('note.txt', 'w') as stream:
        stream.write('first\\nversion 1.5\\n')
    r = utils.load_txt(file_name='note.txt', split=True, match_text=r'version (.*)')
    env['LINES'] = str(len(r['list'])) + r['match'].group(1)
    assert utils.load_txt(file_name='none.txt')['return'] > 0
    utils.save_json(file_name='x.json', meta={'k': [1]})
    merged = {'k': [1], 'd': {'a': 1}}
    more = {**utils.load_json(file_name='x.json')['meta'], 'd': {'b': 2}}
    merge_dicts({'dict1': merged, 'dict2': more, 'append_lists': True, 'append_unique': True})
    env['MERGED'] = str(merged)
    env['WORDS'] = utils.run_system_cmd({'cmd': 'echo a b', 'path': '.'})['output']
    assert utils.run_system_cmd({'cmd': 'exit 3', 'path': '.'})['return'] == 1
    assert utils.compare_versions({'version1': '1.10', 'version2': '1.9'})['comparison'] == 1
    automation.logger.info('said %s', 'aloud')
    logger.warning('be careful')
    os.unlink('note.txt')
    os.unlink('x.json')
    return {'return': 0}
"""
    mlc.script("get-x", customize=customize, new_env_keys=["LINES", "MERGED", "WORDS"], cache=True)
    result = mlc.run("get,x", v=True)
    assert result.env == {
        "LINES": "21.5",
        "MERGED": "{'k': [1], 'd': {'a': 1, 'b': 2}}",
        "WORDS": "a b",
    }
    assert "said aloud" in result.out
    assert "warning: be careful" in result.out


def test_only_scripts_of_that_dialect_find_these_modules(lab: Lab) -> None:
    lab.script("get-x", customize="from mlc import utils\n")
    result = lab.run("get,x")
    assert result.answer["code"] == "customize-crashed"
    assert "install mlc" in result.err


def test_helpers_beside_customize(mlc: Lab) -> None:
    mlc.script(
        "get-x",
        customize="import beside_x\ndef preprocess(i):\n"
        "    i['env']['A'] = beside_x.VALUE\n    return {'return': 0}\n",
        files={"beside_x.py": "VALUE = 'from beside'\n"},
        new_env_keys=["A"],
    )
    assert mlc.run("get,x").env == {"A": "from beside"}


def test_helpers_of_one_name_are_each_that_of_their_own_script(mlc: Lab) -> None:
    hook = (
        "import os, utils_h, parts.inner\n"
        "def preprocess(i):\n"
        "    from utils_h import NAME\n"
        "    from parts.inner import WHOLE\n"
        "    i['env']['MLC_' + NAME] = utils_h.NAME + parts.inner.WHOLE + WHOLE\n"
        "    return {'return': 0}\n"
    )
    for name in ("A", "B"):
        files = {
            "utils_h.py": "import more_h\nNAME = more_h.NAME\n",
            "more_h.py": f"NAME = {name!r}\n",
            "os.py": "raise SystemExit('what is installed comes first')\n",
            "parts/__init__.py": "",
            "parts/inner.py": "from . import leaf\nWHOLE = leaf.LEAF\n",
            "parts/leaf.py": f"LEAF = {name.lower()!r}\n",
        }
        alias = f"get-{name.lower()}"
        mlc.script(alias, customize=hook, files=files, new_env_keys=["MLC_?"])
    mlc.script("app", deps=[{"tags": "get,a"}, {"tags": "get,b"}], new_env_keys=["MLC_?"])
    assert mlc.run("app").env == {"MLC_A": "Aaa", "MLC_B": "Bbb"}


def test_files_are_fetched_and_unpacked(mlc: Lab, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("top/inner.txt", "inner")
    mlc.script(
        "get-x",
        customize=f"""
from utils import download_file, unzip_file
def preprocess(i):
    r = download_file({{'url': 'file://{tmp_path}/a.zip', 'filename': 'b.zip'}})
    assert r['return'] == 0, r
    r = unzip_file({{'filename': r['path'], 'strip_folders': 1}})
    assert r['return'] == 0, r
    i['env']['TEXT'] = open('inner.txt').read()
    r = unzip_file({{'filename': 'none.zip'}})
    assert r['return'] == 1 and 'none.zip' in r['error']
    return {{'return': 0}}
""",
        cache=True,
        new_env_keys=["TEXT"],
    )
    assert mlc.run("get,x").env == {"TEXT": "inner"}


def test_names_and_directories_of_the_engine(mlc: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("no_proxy", "localhost")
    mlc.script(
        "get-x",
        customize="""
def preprocess(i):
    env = i['env']
    import os
    assert env['MLC_TMP_CURRENT_SCRIPT_PATH'] == i['run_script_input']['path']
    assert env['MLC_TMP_CURRENT_PATH'] == os.getcwd()
    env['SEEN'] = ' '.join((env['HOME'], env['no_proxy'], env['MLC_FOO'], env['MLC_QUIET']))
    env['USER_DIRECTORY'] = env['MLC_USER_RUN_DIR']
    env['VERSION'] = env['MLC_VERSION'] + env['MLC_TMP_PIP_VERSION_STRING']
    env['SEARCH'] = env['MLC_SEARCH_FOLDER_PATH'] + env['MLC_TMP_FOLDER']
    return {'return': 0}
""",
        env={"MLC_FOO": "foo"},
        new_env_keys=["SEEN", "USER_DIRECTORY", "VERSION", "SEARCH"],
        cache=True,
    )
    monkeypatch.chdir(mlc.home)
    options: dict[str, Any] = {"quiet": True, "search_folder_path": "/a", "folder": "/b"}
    assert mlc.run("get,x", version="2", **options).env == {
        "SEEN": "/home/somebody localhost foo yes",
        "USER_DIRECTORY": str(mlc.home),
        "VERSION": "2==2",
        "SEARCH": "/a/b",
    }


def test_a_hook_before_the_dependencies(mlc: Lab) -> None:
    hook = """
def predeps(i):
    i['env']['ORDER'] = i['env'].get('ORDER', '') + ' predeps'
    return {'return': 0}
def preprocess(i):
    i['env']['ORDER'] += ' preprocess'
    return {'return': 0}
"""
    mlc.script(
        "get-y",
        customize="def preprocess(i):\n    i['env']['ORDER'] += ' dep'\n    return {'return': 0}\n",
        new_env_keys=["ORDER"],
    )
    meta: dict[str, Any] = {"deps": [{"tags": "get,y"}], "new_env_keys": ["ORDER"]}
    mlc.script("get-x", customize=hook, **meta)
    assert mlc.run("get,x").env == {"ORDER": " predeps dep preprocess"}
    mlc.script("get-x", customize=hook, predeps=False, default_env={"ORDER": "none"}, **meta)
    assert mlc.run("get,x").env == {"ORDER": "none dep preprocess"}


def test_which_native_script_runs(lab: Lab) -> None:
    facts = {
        "HOST_OS_FLAVOR": "mint",
        "HOST_OS_FLAVOR_LIKE": "ubuntu",
        "HOST_OS_VERSION": "21",
        "HOST_OS_TYPE": "linux",
        "HOST_PLATFORM_FLAVOR": "arm64",
    }
    names = ["mint-21-arm64", "mint-21", "mint-arm64", "mint", "ubuntu-arm64", "ubuntu"]
    names += ["linux-arm64", "linux", "arm64", ""]

    def order(prefix: str) -> list[str]:
        env = {prefix + key: value for key, value in facts.items()}
        left, found = list(names), []
        while left:
            files = {
                "-".join(filter(None, ("run", name))) + ".sh": f"echo RAN={name} > tmp-run-env.out"
                for name in left
            }
            lab.script("get-x", files=files, env=env, new_env_keys=["RAN"], cache=True)
            ran = lab.run("get,x").env.get("RAN")
            if ran is None:
                return found
            found.append(ran)
            left.remove(ran)
        return found

    assert order("CM_") == ["mint-21-arm64", "mint-arm64", "mint-21", "mint", "arm64", ""]
    (lab.repo / "meta.yaml").write_text("alias: lab\n")
    assert order("MLC_") == names


def test_a_version_asks_for_its_variation(mlc: Lab) -> None:
    mlc.script(
        "get-x",
        variations={"version.#": {"env": {"WITH": "#"}}, "version.2": {"env": {"WITH": "two"}}},
        new_env_keys=["WITH"],
        default_env={"WITH": "none"},
    )
    assert mlc.run("get,x").env == {"WITH": "none"}
    assert mlc.run("get,x", version="1.5").env == {"WITH": "1.5"}
    assert mlc.run("get,x", version="2").env == {"WITH": "two"}


def test_gaps_in_values_are_unset_in_conditions(lab: Lab) -> None:
    lab.script("get-y", env={"GOT": "y"}, new_env_keys=["GOT"])
    lab.script(
        "get-x",
        env={"OPEN": "<<<NOWHERE>>>"},
        deps=[{"tags": "get,y", "enable_if_env": {"OPEN": ["yes"]}}],
        new_env_keys=["GOT"],
    )
    assert lab.run("get,x").env == {"GOT": "y"}
    (lab.repo / "meta.yaml").write_text("alias: lab\n")
    assert lab.run("get,x").env == {}


def test_tags_of_a_dependency_by_condition_and_from_lists(mlc: Lab) -> None:
    mlc.script(
        "get-y",
        variations={name: {"env": {f"GOT_{name}": "1"}} for name in ("a", "b", "big", "own")},
        new_env_keys=["GOT_*"],
    )
    mlc.script(
        "get-x",
        env={"KINDS": ["a", "b"], "SIZE": "large", "KIND": "b"},
        deps=[
            {
                "tags": "get,y",
                "env": {"KIND": "own"},
                "update_tags_from_env_with_prefix": {"_": ["KINDS", "KIND"]},
                "update_tags_if_env": {
                    "_big": {"enable_if_env": {"SIZE": ["large"]}},
                    "_none": {"enable_if_env": {"SIZE": ["small"]}},
                },
            }
        ],
        new_env_keys=["GOT_*"],
    )
    assert set(mlc.run("get,x").env) == {"GOT_a", "GOT_b", "GOT_big", "GOT_own"}


def test_a_dependency_may_fail_where_that_is_allowed(mlc: Lab) -> None:
    mlc.script("get-y", run="exit 5\n", new_env_keys=["GOT"])
    mlc.script("get-x", deps=[{"tags": "get,y", "continue_on_error": True}], env={"A": "1"})
    result = mlc.run("get,x")
    assert result.answer["return"] == 0
    assert "continuing without get,y" in result.out
    assert result.status == {"get-y": "failed", "get-x": "done"}
    mlc.script("get-x", deps=[{"tags": "get,y"}])
    assert mlc.run("get,x").answer["code"] == "script-failed"


def test_entries_come_to_their_end(mlc: Lab) -> None:
    meta: dict[str, Any] = {"cache": True, "run": "date +N=%N > tmp-run-env.out\n"}
    mlc.script("get-x", new_env_keys=["N"], cache_expiration="2h", **meta)
    first = mlc.run("get,x").env
    assert mlc.run("get,x").env == first
    entry = mlc.store.entries()[0]
    assert 7190 < entry.expires - entry.created < 7210
    mlc.script("get-x", new_env_keys=["N"], cache_expiration=0, **meta)
    assert mlc.run("get,x").env != mlc.run("get,x").env
    why = mlc.call("why", "cache", tags="get,x")
    assert "expired" in why.out
    mlc.script("get-x", new_env_keys=["N"], cache_expiration="soon", **meta)
    assert mlc.run("get,x").answer["code"] == "bad-meta"


def test_expiration_is_handed_to_dependencies_that_want_it(mlc: Lab) -> None:
    for name in ("get-a", "get-b", "get-c"):
        mlc.script(name, cache=True, cache_expiration="1d")
    mlc.script(
        "get-x",
        cache=True,
        cache_expiration="5m",
        deps=[
            {"tags": "get,a", "inherit_cache_expiration": True},
            {"tags": "get,b", "cache_expiration": "3h"},
            {"tags": "get,c"},
        ],
    )
    mlc.run("get,x")
    minutes = {e.script: round((e.expires - e.created) / 60) for e in mlc.store.entries()}
    assert minutes == {"get-a": 5, "get-b": 180, "get-c": 1440, "get-x": 5}


def test_scripts_keep_to_their_own_dialect(lab: Lab, tmp_path: Path) -> None:
    def detect(prefix: str) -> dict[str, Any]:
        key = prefix + "FOUND"
        return {"tags": "detect,thing", "env": {key: "yes"}, "new_env_keys": [key]}

    lab.script("detect-thing", **detect("CM_"))
    lab.script("app-one", deps=[{"tags": "detect,thing"}], new_env_keys=["*_FOUND"])
    other = tmp_path / "another"
    lab.repo, mine = other, lab.repo
    (other / "script").mkdir(parents=True)
    (other / "meta.yaml").write_text("alias: another\n")
    lab.script("detect-thing", **detect("MLC_"))
    lab.script("app-two", deps=[{"tags": "detect,thing"}], new_env_keys=["*_FOUND"])
    lab.repo, lab.others = mine, [other]
    assert lab.run("app,one").env == {"CM_FOUND": "yes"}
    assert lab.run("app,two").env == {"MLC_FOUND": "yes"}


def test_customize_asks_for_other_scripts(mlc: Lab) -> None:
    mlc.script("get-y", env={"Y": "why"}, new_env_keys=["Y"], cache=True)
    mlc.script(
        "get-x",
        customize="""
import mlc
def preprocess(i):
    r = mlc.access({'action': 'run', 'target': 'script', 'tags': 'get,y', 'quiet': True})
    i['env']['A'] = r['new_env']['Y']
    r = i['automation'].action_object.access(
        {'action': 'find', 'automation': 'script', 'tags': 'get,y'})
    found = r['list'][0]
    i['env']['B'] = found.path.split('/')[-1] + found.meta['env']['Y']
    find = {'action': 'find', 'target': 'cache', 'tags': 'get,y'}
    entry = i['automation'].cache_action.access(find)['list'][0]
    i['env']['C'] = ','.join(entry.meta['tags'])
    assert entry.path.endswith(entry.meta['uid'])
    r = mlc.access({'action': 'rm', 'target': 'cache', 'tags': 'get,y', 'force': True})
    assert r['return'] == 0 and mlc.access(find)['list'] == []
    assert mlc.access({'action': 'run', 'automation': 'script', 'tags': 'none'})['return'] == 16
    assert i['automation'].action_object.repos_path
    return {'return': 0}
""",
        new_env_keys=["A", "B", "C"],
    )
    assert mlc.run("get,x").env == {"A": "why", "B": "get-ywhy", "C": "get,y"}


def test_faults_in_the_meta_of_others_are_warnings(mlc: Lab) -> None:
    mlc.script("get-y", alis="why", variations={"v": {"defualt": True}})
    mlc.script("get-x", deps=[{"tags": "get,y"}, {"tags": "get,y", "env": {"A": "2"}}])
    result = mlc.run("get,x")
    assert result.answer["return"] == 0
    warnings = [line for line in result.err.splitlines() if line.startswith("warning")]
    assert len(warnings) == 1
    assert 'alis: unknown key, did you mean "alias"?' in warnings[0]
    assert "variations.v.defualt" in warnings[0]
    assert "warning" not in mlc.run("get,x", quiet=True).err
    assert "defualt" in mlc.call("lint", tags="get,y").out
    assert mlc.call("run", tags="get,y", own=True).answer["code"] == "bad-meta"


def test_inputs_of_others_do_not_bind(mlc: Lab) -> None:
    mlc.script(
        "get-x",
        input_mapping={"kind": "KIND"},
        input_description={"kind": {"desc": "a kind", "choices": ["a", "b"]}},
        new_env_keys=["KIND"],
    )
    result = mlc.run("get,x", kind="c", kid="d", graph=True)
    assert result.env == {"KIND": "c"}
    assert 'knows no flag --kid; did you mean "kind"?' in result.err
    assert "--graph" in result.err


def test_the_record_names_the_run_as_ever(mlc: Lab) -> None:
    mlc.script("get-x", run='echo "MLC_A=$MLC_TMP_RUN_DIR" > tmp-run-env.out\n', cache=True)
    result = mlc.run("get,x")
    assert json.loads(Path(result.answer["record"]).read_text())["status"] == "done"


def test_a_path_is_meant_from_where_the_user_is(
    mlc: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlc.script(
        "get-x",
        input_mapping={"place": "PLACE"},
        input_description={"place": {"desc": "a place", "is_path": True}},
        new_env_keys=["PLACE"],
        cache=True,
    )
    monkeypatch.chdir(tmp_path)
    assert mlc.run("get,x", place="here/a").env == {"PLACE": f"{tmp_path}/here/a"}


def test_lists_grow(lab: Lab) -> None:
    lab.script(
        "get-x",
        env={"+PATH": ["/a"]},
        variations={"v": {"env": {"+PATH": ["/b", "/a"]}}},
        new_env_keys=["+PATH"],
    )
    assert lab.run("get,x,_v").env == {"+PATH": ["/b", "/a"]}
    (lab.repo / "meta.yaml").write_text("alias: lab\n")
    assert lab.run("get,x,_v").env == {"+PATH": ["/a", "/b"]}


def test_a_repository_of_mlc_is_registered_with_cm(home: Home, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.repo / "meta.yaml").write_text("alias: someone@scripts\nuid: '0123456789abcdef'\n")
    lab.script(
        "detect-thing",
        customize="from mlc import utils\nfrom utils import is_true\n"
        "def preprocess(i):\n    i['env']['MLC_THING'] = str(is_true('yes'))\n"
        "    return {'return': 0}\n",
        new_env_keys=["MLC_THING"],
    )
    home.cm("init", "repo", cwd=lab.repo).ok()
    done = home.cm("run", "script", "--tags=detect,thing", "--out=json", cwd=lab.repo).ok()
    assert done.json["new_env"] == {"MLC_THING": "True"}


def test_bounds_are_for_scripts_that_look_at_them(mlc: Lab) -> None:
    mlc.script("get-x", new_env_keys=["MLC_VERSION_MIN"])
    assert mlc.run("get,x", version_min="3.8").env == {"MLC_VERSION_MIN": "3.8"}
    mlc.script("get-y", customize="def preprocess(i):\n    return {'return': 0, 'version': '1'}\n")
    assert mlc.run("get,y", version_min="3.8").answer["code"] == "version-not-found"


def test_a_tag_that_a_hook_gave_names_an_entry(mlc: Lab) -> None:
    find = "def preprocess(i):\n    env = i['env']\n    env['WHERE'] = env.get('BIN', 'base')\n"
    find += "    return {'return': 0}\n"
    mlc.script("get-python3", cache=True, new_env_keys=["WHERE"], customize=find)
    customize = """
def preprocess(i):
    i['env']['BIN'] = 'venv'
    i['automation'].update_deps({'deps': i['meta']['post_deps'], 'update_deps': {
        'register-python': {'extra_cache_tags': 'virtual,name-test'}}})
    return {'return': 0, 'add_extra_cache_tags': ['name-test']}
"""
    mlc.script(
        "install-venv",
        cache=True,
        customize=customize,
        post_deps=[{"tags": "get,python3", "names": ["register-python"]}],
    )
    python = {"tags": "get,python3", "names": ["python"]}
    mlc.script("print-python", deps=[python], new_env_keys=["WHERE"])
    assert mlc.run("print,python").env == {"WHERE": "base"}
    mlc.run("install,venv", name="Test")
    taken = mlc.run("print,python", adr={"python": {"name": "Test"}})
    assert taken.env == {"WHERE": "venv"}
    assert mlc.run("print,python").env == {"WHERE": "base"}
    misspelt = mlc.run("print,python", adr={"python": {"name": "tset"}})
    assert misspelt.answer["code"] == "not-registered", misspelt.answer


@pytest.fixture(params=["cm", "mlc"])
def foreign(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """Scripts of the first engine or of MLC: one that depends on two others."""
    hook = "def preprocess(i):\n    i['env']['RAN'] = 'yes'\n    return {'return': 0}\n"
    paths = [
        lab.script("get-b", run="echo b >> ran.txt\n"),
        lab.script("get-c", run="echo c >> ran.txt\n"),
        lab.script(
            "get-a",
            customize=hook,
            run="echo a >> ran.txt\n",
            deps=[{"tags": "get,b"}, {"tags": "get,c", "names": ["c"]}],
            env={"SET": "1"},
            new_env_keys=["RAN", "SET"],
        ),
    ]
    if request.param == "mlc":
        (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    else:
        for path in paths:
            (path / "meta.yaml").rename(path / "_cm.yaml")
    return lab


def ran_here() -> str:
    path = Path("ran.txt")
    return "".join(path.read_text().split()) if path.exists() else ""


def test_a_script_itself_is_not_run(foreign: Lab) -> None:
    assert foreign.run("get,a", fake_run=True).env == {"SET": "1"}
    assert ran_here() == "bc"
    assert foreign.run("get,a", force_new_env_keys=["SET"]).env == {"SET": "1"}
    Path("ran.txt").write_text("b c")
    # The engine of MLC knows the flag, and runs the dependencies all the same.
    is_mlc = (foreign.repo / "meta.yaml").exists()
    assert foreign.run("get,a", prepare=True, fake_deps=True).env == {"SET": "1"}
    assert foreign.run("get,a", fake_deps=True).env == {"SET": "1", "RAN": "yes"}
    assert ran_here() == ("bcbcbca" if is_mlc else "bca")


def test_what_a_caller_has_is_given_back_by_name(mlc: Lab) -> None:
    mlc.script("get-inner", cache=True, new_env_keys=["PLACE", "OTHER_*"])
    entry = {"tags": "get,inner", "env": {"PLACE": "here", "OTHER_X": "1"}}
    mlc.script("get-outer", deps=[entry], new_env_keys=["PLACE", "OTHER_*"])
    for cached in (False, True):
        assert mlc.run("get,outer").env == {"PLACE": "here", "OTHER_X": "1"}, cached
    other = {**entry, "env": {"PLACE": "there", "OTHER_X": "2"}}
    mlc.script("get-outer", deps=[other], new_env_keys=["PLACE", "OTHER_*"])
    assert mlc.run("get,outer").env == {"PLACE": "there", "OTHER_X": "2"}


def test_a_folder_is_searched_before_the_path(mlc: Lab, tmp_path: Path) -> None:
    find = """
def preprocess(i):
    found = i['automation'].find_artifact({'file_name': 'sometool', 'env': i['env'],
        'env_path_key': 'WHERE', 'os_info': i['os_info'], 'default_path_env_key': 'PATH'})
    return found if found['return'] else {'return': 0}
"""
    mlc.script("get-x", customize=find, new_env_keys=["WHERE"])
    for folder in ("top/a/b/c", "top/a/b/c/d/e"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "top/a/b/c/d/e/sometool").touch()
    top = str(tmp_path / "top")
    assert mlc.run("get,x", search_folder_path=top).answer["return"] == 16
    (tmp_path / "top/a/b/c/sometool").touch()
    assert mlc.run("get,x", search_folder_path=top).env == {"WHERE": f"{top}/a/b/c/sometool"}


def test_a_path_relied_on_that_is_not_there(mlc: Lab) -> None:
    hook = """
def postprocess(i):
    i['env']['MLC_GET_DEPENDENT_CACHED_PATH'] = i['env']['WHERE']
    return {'return': 0}
"""
    mapping = {"input_mapping": {"where": "WHERE"}, "new_env_keys": ["WHERE"]}
    mlc.script("get-dir", cache=True, customize=hook, **mapping)
    for _ in range(2):
        made = mlc.run("get,dir", where="abc")
        assert made.env == {"WHERE": "abc"}
        assert not made.answer["cached"]


def test_what_else_a_fake_run_leaves_out(mlc: Lab) -> None:
    mlc.script("get-b", run="echo b >> ran.txt\n")
    entry = {"tags": "get,b"}
    mlc.script("get-x", deps=[{**entry, "skip_if_fake_run": True}])
    mlc.script("get-y", posthook_deps=[entry], post_deps=[entry])
    mlc.run("get,x", prepare=True)
    mlc.run("get,y", fake_run=True)
    assert ran_here() == ""
    mlc.script("get-z", prehook_deps=[entry])
    mlc.run("get,z", fake_run=True)
    assert ran_here() == "b"


def test_the_commands_of_dependencies(foreign: Lab) -> None:
    result = foreign.run("get,a", print_deps=True, fake_run=True, fake_deps=True)
    is_mlc = (foreign.repo / "meta.yaml").exists()
    start = "mlcr " if is_mlc else "cm run script --tags="
    commands = [start + "get,b", start + "get,c"]
    assert result.answer["new_state"]["print_deps"] == commands
    assert all(command in result.out for command in commands)
    tags = ["get,b", "get,c"]
    assert result.answer["deps"] == ([{"tags": t} for t in tags] if is_mlc else tags)


def test_files_about_a_run(foreign: Lab) -> None:
    flags = ("dump_version_info", "print_readme", "repro", "save_env", "time", "print_versions")
    result = foreign.run("get,a", **dict.fromkeys(flags, True))
    name = "mlc" if (foreign.repo / "meta.yaml").exists() else "cm"
    versions = json.loads(Path("version_info.json").read_text())
    assert [next(iter(v)) for v in versions] == ["get-b", "get-c", "get-a"]
    assert versions[0]["get-b"]["parent"] == "get-a"
    assert Path(f"{name}-run-script-versions.json").exists()
    assert "get,c" in Path(f"README-{name}.md").read_text()
    if name == "cm":
        made = {path.name for path in Path("cm-repro").iterdir()}
        assert {"cm-run-script-input.json", "cm-run-script-run-state.json"} <= made
        assert json.loads(Path("cm-output.json").read_text())["output"]["return"] == 0
    else:
        assert not Path("mlc-repro").exists()
    assert "export SET=1" in Path("tmp-env.sh").read_text()
    assert "running time of get,a" in result.out
    assert "knows no flag" not in result.err


def test_only_from_the_cache(mlc: Lab) -> None:
    mlc.script("get-x", cache=True)
    refused = mlc.run("get,x", only_execute_from_cache=True).answer
    assert (refused["return"], refused["code"]) == (1, "entry-not-found")
    mlc.run("get,x")
    assert mlc.run("get,x", only_execute_from_cache=True).answer["cached"]


def test_a_failure_that_the_user_ignores(mlc: Lab) -> None:
    post = "def postprocess(i):\n    i['env']['AFTER'] = 'yes'\n    return {'return': 0}\n"
    mlc.script("get-x", cache=True, run="exit 3\n", customize=post, new_env_keys=["AFTER"])
    assert mlc.run("get,x").answer["code"] == "script-failed"
    assert mlc.run("get,x", ignore_script_error=True).env == {"AFTER": "yes"}
    assert mlc.run("get,x").answer["code"] == "script-failed"  # what failed answers no call


def test_files_that_are_left(mlc: Lab) -> None:
    mlc.script("get-x", run="touch left\n", clean_files=["left"])
    mlc.run("get,x")
    assert not Path("left").exists()
    mlc.run("get,x", dirty=True)
    assert Path("left").exists()


def test_a_new_entry_is_beside_the_old_one(mlc: Lab) -> None:
    mlc.script("get-x", cache=True)
    first, second = (mlc.run("get,x", new=True).answer["entry"] for _ in range(2))
    assert first != second
    assert len(mlc.call("search", "cache", tags="get,x").answer["list"]) == 2
    assert mlc.run("get,x").answer["entry"] == second
    mlc.run("get,x", renew=True)
    assert len(mlc.call("search", "cache", tags="get,x").answer["list"]) == 1


def test_a_key_that_the_caller_set_is_given_back(mlc: Lab) -> None:
    """``get-python3`` registers the Python that ``install-python-venv`` hands it."""
    hook = "def preprocess(i):\n    i['env']['BIN_PATH'] = 'venv'\n    return {'return': 0}\n"
    find = "def preprocess(i):\n    'BIN_PATH' in i['env']\n    return {'return': 0}\n"
    mlc.script("get-python3", cache=True, new_env_keys=["BIN_*"], customize=find)
    post = [{"tags": "get,python3", "extra_cache_tags": "name-test"}]
    mlc.script("install-venv", cache=True, customize=hook, post_deps=post)
    python = {"tags": "get,python3", "names": ["python"]}
    mlc.script("print-python", deps=[python], new_env_keys=["BIN_PATH"])
    mlc.run("install,venv")
    assert mlc.run("print,python", adr={"python": {"name": "test"}}).env == {"BIN_PATH": "venv"}


def test_tags_for_the_cache_choose_an_entry(foreign: Lab) -> None:
    mapping = {"input_mapping": {"of": "OF"}, "new_env_keys": ["OF"], "cache": True}
    hook = "def preprocess(i):\n    i['env'].get('OF')\n    return {'return': 0}\n"
    path = foreign.script("get-x", customize=hook, **mapping)
    if not (foreign.repo / "meta.yaml").exists():
        (path / "meta.yaml").rename(path / "_cm.yaml")
    foreign.run("get,x", of="one", extra_cache_tags="sys,best")
    foreign.run("get,x", of="two")
    assert foreign.run("get,x", extra_cache_tags="sys").env == {"OF": "one"}
    assert foreign.run("get,x", extra_cache_tags="sys", of="three").env == {"OF": "three"}
    assert foreign.run("get,x", extra_cache_tags="other").env == {}


def test_tags_of_what_an_entry_was_made_with(mlc: Lab) -> None:
    mlc.script(
        "get-x",
        cache=True,
        env={"PYTHON_TAGS": "version-3,virtual"},
        extra_cache_tags_from_env=[{"env": "PYTHON_TAGS", "prefix": "python-"}],
    )
    mlc.run("get,x")
    [entry] = mlc.call("search", "cache", tags="deps-python-virtual").answer["list"]
    assert "deps-python-version-3" in entry.meta["tags"]


def test_what_mlc_says_that_a_script_depends_on(mlc: Lab) -> None:
    mlc.script("get-b")
    mlc.script("get-c")
    mlc.script(
        "get-a",
        deps=[{"tags": "get,b"}, {"tags": "get,c", "enable_if_env": {"NO": ["yes"]}}],
        post_deps=[{"tags": "get,c"}],
    )
    assert mlc.run("get,a").answer["deps"] == [{"tags": "get,b"}, {"tags": "get,c"}]


def test_a_hook_sees_that_its_step_is_to_be_kept(mlc: Lab) -> None:
    hook = (
        "def preprocess(i):\n"
        "    if i['input'].get('force_cache'):\n"
        "        tags = i['input'].get('extra_cache_tags', '')\n"
        "        told = {'below': {'force_cache': True, 'extra_cache_tags': tags}}\n"
        "        below = i['meta']['prehook_deps']\n"
        "        return i['automation'].update_deps({'deps': below, 'update_deps': told})\n"
        "    return {'return': 0}\n"
    )
    mlc.script("get-b", cache=False, can_force_cache=True, env={"B": "1"}, new_env_keys=["B"])
    below = [{"tags": "get,b", "names": ["below"]}]
    keys = {"new_env_keys": ["B"], "can_force_cache": True}
    mlc.script("get-a", cache=False, prehook_deps=below, customize=hook, **keys)
    entry = {"tags": "get,a", "force_cache": True, "extra_cache_tags": "one,two"}
    mlc.script("app", deps=[entry])
    mlc.run("app")
    kept = {each["script"]: each["tags"] for each in mlc.call("show", "cache").answer["list"]}
    assert set(kept) == {"get-a", "get-b"}
    assert {"one", "two"} <= set(kept["get-b"])


@pytest.mark.parametrize("foreign", [True, False])
def test_a_plan_that_another_collection_cannot_make_is_a_warning_of_its_test(
    lab: Lab, foreign: bool
) -> None:
    lab.script("get-y", variations={"b": {}})
    deps = {"deps": [{"tags": "get,y,_c"}]}
    path = lab.script("get-x", variations={"a": deps}, run="true")
    if foreign:
        (path / "meta.yaml").rename(path / "_cm.yaml")
    done = lab.call("test", artifact="get-x")
    assert bool(done.answer["return"]) == (not foreign), done.out
    assert ("warning: " in done.out) == foreign
    assert "_c" in done.out
    (told,) = done.answer["tests"]
    assert len(told["warnings" if foreign else "problems"]) == 1
    assert not told["problems" if foreign else "warnings"]
