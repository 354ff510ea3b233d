"""What authors of scripts call: add, lint, test, doc, complete."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.author.checks import REGISTRY
from cmbench.author.docs import BEGIN, END, fill
from cmbench.author.scaffold import KINDS
from cmbench.cli.completion import LINE, SHELLS, complete
from cmbench.errors import Error
from cmbench.index.scripts import Index, Repository
from lab import Lab, Result
from shared_files import seed_index
from support import ROOT


@pytest.fixture
def here(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A laboratory whose repository the author is in, with this project's scripts beside it."""
    (lab.repo / "cmr.yaml").write_text("alias: lab\nuid: '1'\n")
    monkeypatch.chdir(lab.repo)
    one = lab.cmind()

    def both(own: bool = False) -> Any:
        repository = type(one.repos.lst[0])(path_with_prefix=str(ROOT), meta={"alias": "cmbench"})
        one.repos.lst[1:] = [repository]
        return one

    monkeypatch.setattr(lab, "cmind", both)
    seed_index(lab.home)
    return lab


def lines(result: Result) -> list[str]:
    return result.out.splitlines()


# ---------------------------------------------------------------- add


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_script_passes_everything_at_once(kind: str, here: Lab) -> None:
    assert here.call("add", artifact=f"get-new-{kind}", kind=kind).answer["return"] == 0
    for verb, flags in (("lint", {}), ("test", {}), ("doc", {"check": True})):
        result = here.call(verb, artifact=f"get-new-{kind}", **flags)
        assert result.answer["return"] == 0, result.out + result.err
    code = here.repo / "script" / f"get-new-{kind}" / "customize.py"
    if code.exists():
        compile(code.read_text(), str(code), "exec")
    assert (here.repo / "schema/meta.schema.json").is_file()


def test_an_app_and_a_benchmark_run_at_once(here: Lab, tmp_path: Path) -> None:
    for kind in ("app", "benchmark"):
        here.call("add", artifact=f"run-{kind}", kind=kind)
    assert here.run("run,app", repeat=2, verbose=True).answer["return"] == 0
    result = here.run("run,benchmark", repeat=2, results_dir=str(tmp_path / "results"))
    measured = json.loads(Path(result.env["CM_BENCHMARK_RESULT_JSON"]).read_text())
    assert len(measured["times_ms"]) == 2
    assert "median" in result.out


def test_what_the_author_says_is_written(here: Lab) -> None:
    name = "It's 1: the set"
    words = {"name": name, "tags": "get,dataset,mine", "url": "https://h/m.tar.gz", "sha256": "7"}
    here.call("add", artifact="lab:get-dataset-mine", kind="dataset", **words)
    path = here.repo / "script/get-dataset-mine"
    meta = yaml.safe_load((path / "meta.yaml").read_text())
    assert (meta["name"], meta["tags"]) == (name, ["get", "dataset", "mine"])
    assert meta["env"]["CM_DATASET_URL"] == "https://h/m.tar.gz"
    assert meta["env"]["CM_DATASET_CHECKSUM"] == "7"
    assert (path / "README.md").read_text().startswith("# get-dataset-mine\n")


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        ({"artifact": "get-a", "kind": "detct"}, 'did you mean "detect"?'),
        ({"artifact": "Get A"}, "name it <verb>-<thing>"),
        ({"artifact": "../up-x"}, "name it <verb>-<thing>"),
        ({}, "name it <verb>-<thing>"),
        ({"artifact": "get-a", "repo": "mine"}, "there are: lab, cmbench"),
        ({"artifact": "get-a", "kinds": "app"}, 'did you mean "kind"?'),
    ],
)
def test_a_wrong_wish_writes_nothing(flags: dict[str, str], hint: str, here: Lab) -> None:
    result = here.call("add", **flags)
    assert result.answer["return"] == 4
    assert hint in " ".join(result.err.split())
    assert not list((here.repo / "script").iterdir())


def test_a_script_that_is_there_stays(here: Lab) -> None:
    here.call("add", artifact="get-a")
    (here.repo / "script/get-a/meta.yaml").write_text("mine")
    assert here.call("add", artifact="get-a").answer["return"] == 4
    assert (here.repo / "script/get-a/meta.yaml").read_text() == "mine"


def test_outside_of_every_repository_it_says_where_scripts_may_go(
    here: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cm add repo my-scripts" in here.call("add", artifact="get-a").err


# ---------------------------------------------------------------- lint


def test_lint_reports_faults_and_corrects_what_it_can(here: Lab) -> None:
    path = here.script("get-x", cache=True, category="c", name="x", new_env_key=[])
    found = here.call("lint", artifact="get-x")
    assert found.answer["return"] == 1
    assert "script/get-x/meta.yaml:1: CMB105" in found.out
    assert lines(found)[-1] == f"1 script, {len(REGISTRY)} checks, 5 faults"
    only = here.call("lint", only="CMB101", json=True)
    assert json.loads(only.out)["faults"][0]["number"] == "CMB101"
    # It was written as one line of JSON, in which there is no order to correct.
    (path / "meta.yaml").write_text(
        "tags: [get, x]\nname: x\nalias: get-x\nuid: 0123456789abcdef\n"
    )
    assert here.call("lint", artifact="get-x", fix=True, skip="CMB6").answer["return"] == 0
    assert (path / "meta.yaml").read_text().startswith("# yaml-language-server")


def test_lint_takes_a_folder_and_refuses_what_is_none(here: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "script/get-b").mkdir(parents=True)
    (other / "cmr.yaml").write_text("alias: other\n")
    (other / "script/get-b/_cm.yaml").write_text("alias: get-b\nuid: x\ntags: [get\n")
    for path in (other, other / "script/get-b"):
        result = here.call("lint", path=str(path))
        assert "_cm.yaml:" in result.out
        assert "CMB100" in result.out
    (other / "cmr.yaml").rename(other / "meta.yaml")  # as repositories of MLC have it
    assert len(here.call("lint", path=str(other)).answer["faults"]) == 1
    assert here.call("lint", path=str(tmp_path / "none")).answer["return"] == 4
    assert here.call("lint", tags="get,b", path=str(other)).answer["return"] == 4
    assert here.call("lint", tags="no,such").answer["return"] == 16


@pytest.mark.parametrize(("mark", "name"), [("meta.yaml", "meta.yaml"), ("cmr.yaml", "_cm.yaml")])
def test_faults_of_other_people_are_warnings(
    mark: str, name: str, here: Lab, tmp_path: Path
) -> None:
    path = tmp_path / "other/script/get-b"
    path.mkdir(parents=True)
    (tmp_path / "other" / mark).write_text("alias: other\n")
    text = "tags: [get, b]\nnew_env_kyes: [B]\nalias: get-b\nuid: 0123456789abcdef\n"
    (path / name).write_text(text)
    foreign = here.call("lint", path=str(path))
    assert foreign.answer["return"] == 0
    assert f"{name}:2: warning: CMB101 new_env_kyes" in foreign.out
    assert [fault["number"] for fault in foreign.answer["faults"]] == ["CMB101"]  # no house style
    assert lines(foreign)[-1].endswith("checks, 0 faults, 1 warning")
    assert here.call("lint", path=str(path), only="CMB103").answer["faults"][0]["binding"] is False
    assert here.call("lint", path=str(path), fix=True).answer["fixed"] == []
    strict = here.call("lint", path=str(path), strict=True)
    assert strict.answer["return"] == 1
    assert {fault["number"] for fault in strict.answer["faults"]} > {"CMB101", "CMB103"}
    assert (path / name).read_text() == text


# ---------------------------------------------------------------- test

FIND = """
from cmbench.lib.tools import bounds_of, find_tool, not_found, search_folders
def preprocess(i):
    found = find_tool('tool', search_folders(i), bounds_of(i['env']))
    print('looked', *found.lines)
    if not found.tool:
        raise not_found('tool', found, bounds_of(i['env']))
    i['env']['CM_X_PATH'] = found.tool.path
    i['env']['CM_X_MODE'] = i['env'].get('CM_MODE', '')
    return {'return': 0, 'version': found.tool.version}
"""
TOOL = {"tools": {"tool": {"--version": "tool 1.2"}}}


def run_cases(lab: Lab, *cases: dict[str, Any]) -> list[list[str]]:
    """The problems of each case."""
    lab.script(
        "get-x",
        customize=FIND,
        files={"detection_test.yaml": json.dumps([{"name": "case", **case} for case in cases])},
        new_env_keys=["CM_X_*"],
        input_mapping={"mode": "CM_MODE"},
        variations={"slow": {"env": {"CM_MODE": "slow"}}},
        deps=[{"tags": "get,nothing"}],
    )
    result = lab.call("test", artifact="get-x")
    tests = result.answer["tests"]
    assert result.answer["return"] == int(any(t["problems"] for t in tests))
    # A dependency that does not exist is a fault of the plan, and not of any case.
    assert "get,nothing" in tests[0]["problems"][0]
    return [item["problems"] for item in tests[1:]]


@pytest.mark.parametrize(
    "case",
    [
        {**TOOL, "expect": {"version": 1.2, "env": {"CM_X_PATH": "$HERE/bin/tool"}}},
        {
            **TOOL,
            "expect": {"env": {"CM_X_PATH": "*/tool", "CM_X_MODE": ""}},
            "says": "1.2, chosen",
        },
        {**TOOL, "variations": "_slow", "expect": {"env": {"CM_X_MODE": "slow"}}},
        {**TOOL, "flags": {"mode": "fast"}, "expect": {"env": {"CM_X_MODE": "fast"}}},
        {**TOOL, "given": {"CM_MODE": 1}, "expect": {"env": {"CM_X_MODE": 1}}},
        {**TOOL, "flags": {"version_min": "2"}, "error": "not-detected", "says": ["below the"]},
        {"tools": {"tool": {"*": {"status": 3, "err": "bad"}}}, "error": "not-detected"},
        {
            "tools": {"tool": {"-v": "1.0"}},
            "error": "not-detected",
            "says": "no answer to: --version",
        },
        {"tools": {"a/tool": {"--ver*": "1.0"}}, "path": ["a"], "expect": {"version": "1.0"}},
        {
            "tools": {"tool": {"--version": {"do": 'cat "$HERE/f"'}}},
            "files": {"f": "5.5"},
            "expect": {"version": "5.5"},
        },
        {"basics": False, "error": "not-detected", "says": "tool is not in any"},
    ],
)
def test_a_case_that_holds(case: dict[str, Any], here: Lab) -> None:
    assert run_cases(here, case) == [[]]


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({**TOOL, "expect": {"version": "1.3"}}, "version is '1.2', not '1.3'"),
        ({**TOOL, "expect": {"env": {"CM_X_PATH": "/bin/tool"}}}, "'$HERE/bin/tool', not '/bin"),
        ({**TOOL, "expect": {"env": {"CM_X_PATH": ""}}}, "CM_X_PATH is '$HERE/bin/tool'"),
        ({**TOOL, "expect": {"env": {"CM_Y": "*"}}}, "CM_Y is None"),
        ({**TOOL, "error": "not-detected"}, "should have failed with not-detected"),
        ({**TOOL, "says": "something else"}, "not in the output: something else"),
        ({}, "it failed: error [not-detected]"),
        ({"error": "bad-value"}, "it failed: error [not-detected]"),
        ({**TOOL, "flags": {"mdoe": 1}}, 'did you mean "mode"'),
    ],
)
def test_a_case_that_does_not_hold(case: dict[str, Any], problem: str, here: Lab) -> None:
    ((found,),) = run_cases(here, case)
    assert problem in found


def test_a_case_leaves_no_trace(here: Lab) -> None:
    before = sorted(here.home.rglob("*"))
    run_cases(here, TOOL, TOOL)
    assert [p for p in here.home.rglob("*") if p not in before and p.is_file()] == []
    assert Path.cwd() == here.repo


@pytest.mark.parametrize("text", ["{a: 1}", "[1]", "[{toolz: {}}]"])
def test_a_file_of_cases_that_is_wrong_is_refused(text: str, here: Lab) -> None:
    here.script("get-x", files={"detection_test.yaml": text})
    result = here.call("test", artifact="get-x")
    assert result.answer["return"] == 4
    assert "detection_test.yaml" in result.err


def test_the_cases_are_no_part_of_what_the_cache_knows(here: Lab) -> None:
    here.script("get-x", cache=True, files={"detection_test.yaml": "[]"})
    here.run("get,x")
    (here.repo / "script/get-x/detection_test.yaml").write_text("[{name: CM_OTHER}]")
    assert here.run("get,x").status == {"get-x": "cached"}


# ---------------------------------------------------------------- doc


def test_docs_are_written_and_found_to_be_stale(here: Lab) -> None:
    path = here.script(
        "get-x",
        name="The x",
        variations={"a": {"group": "g", "default": True}, "b.#": {}},
        input_mapping={"n": "CM_N"},
        input_description={"n": {"desc": "a|b", "type": "int", "choices": [1, 2], "unit": "s"}},
        deps=[{"tags": "get,y", "enable_if_env": {"CM_N": [1]}}, {"tags": "get,<<<CM_N>>>"}],
        new_env_keys=["CM_X_*"],
    )
    here.script("get-y")
    assert here.call("doc", check=True).answer["return"] == 1
    assert here.call("doc").answer["return"] == 0
    assert here.call("doc", check=True).answer["return"] == 0
    text = (path / "README.md").read_text()
    for part in (
        "# get-x\n\nThe x.\n",
        "| `--n` | `CM_N` | int |  | a\\|b; one of `1`, `2`; in s |",
        "- g: one of `_a` (default)",
        "- any of `_b.#`",
        "- [`get,y`](../get-y/README.md): on a condition",
        "- `get,<<<CM_N>>>`",
        "`CM_X_*`",
    ):
        assert part in text
    (path / "README.md").write_text(text.replace("The x.", "By hand.").replace("a\\|b", "old"))
    assert here.call("doc").answer["written"] == [str(path / "README.md")]
    assert (path / "README.md").read_text() == text.replace("The x.", "By hand.")


def test_a_stale_part_of_a_meta_file_is_found_for_a_chosen_script(here: Lab) -> None:
    (here.repo / "cmr.yaml").write_text("alias: cmbench\nuid: '1'\n")
    path = here.script("get-x", tags="get,x", files={"parts.py": ""})
    here.script("get-y", tags="get,y")
    meta = path / "meta.yaml"
    text = meta.read_text() + "\n"
    part = "# begin: words, written by `cm doc script` from parts.py\n{}# end: words\n"
    (path / "parts.py").write_text("import json; print(json.dumps({'words': '# new'}))\n")
    meta.write_text(text + part.format("# old\n"))
    here.call("doc", tags="get,x")
    assert meta.read_text() == text + part.format("# new\n")
    meta.write_text(text + part.format("# old\n"))
    stale = here.call("doc", tags="get,x", check=True)
    assert stale.answer["return"] == 1
    assert f"{meta}" in stale.answer["stale"]
    assert here.call("doc", tags="get,y", check=True).answer["stale"] != [str(meta)]


def test_a_page_says_the_same_whatever_else_is_registered(here: Lab, tmp_path: Path) -> None:
    path = here.script("get-x", tags="get,x", deps=[{"tags": "get,y"}])
    here.script("get-y", tags="get,y")
    here.call("doc")
    text = (path / "README.md").read_text()
    shutil.copytree(here.repo, tmp_path / "other")
    here.others.append(tmp_path / "other")
    assert here.call("doc", check=True).answer["return"] == 0
    here.call("doc")
    assert (path / "README.md").read_text() == text
    assert "(../get-y/README.md)" in text


def test_what_is_written_by_hand_stays() -> None:
    once = fill("# x\n\ntext\n", "one")
    assert once == f"# x\n\ntext\n\n{BEGIN}\n\none\n\n{END}\n"
    assert fill(once + "\nmore\n", "two") == once.replace("one", "two") + "\nmore\n"
    assert fill("", "one").startswith(BEGIN)


# ---------------------------------------------------------------- completion

OURS = {"script": ["run", "lint"], "cache": ["show", "rm"]}


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("", []),
        ("cm r", ["rm", "run"]),
        ("cm rm ", ["cache"]),
        ("cm run script --tags=g", ["get", "get-x"]),
        ("cm run script --tags=get,", ["get,get-x", "get,x", "get,x2"]),
        ("cm run script --tags=get,x,_", ["get,x,_fast", "get,x,_n.", "get,x,_slow"]),
        ("cm run script --tags=none,", []),
        ("cm run script get-", ["get-x", "get-x2"]),
        ("cm run script --tags=get,x --mo", ["--mode="]),
        ('cm run script "get x" --mode=', ["fast", "slow"]),
        ("cm run script get-x --big=", ["no", "yes"]),
        ("cm run script get-x --out=", ["json"]),
        ("cm run script get-x --qui", ["--quiet"]),
        ("cm run script bad --mod", []),
        ("cm lint script --f", ["--fix"]),
        ("cm gc cache --m", ["--max-size="]),
        ("cm du cache --", ["--json"]),
        ("cm replay script ", ["last", "last~1"]),
        ("cm docker script get-x --docker_b", ["--docker_base_image="]),
        ("cm add script get-a --kind=d", ["dataset", "detect", "download"]),
    ],
)
def test_completion(line: str, candidates: list[str], lab: Lab) -> None:
    described = {"mode": {"choices": ["slow", "fast"]}, "big": {"type": "bool"}}
    lab.script(
        "get-x",
        "get,x,get-x",
        variations={"slow": {}, "fast": {}, "n.#": {}},
        input_description=described,
    )
    lab.script("get-x2", "get,x2")
    (lab.repo / "script/bad").mkdir()
    (lab.repo / "script/bad/meta.yaml").write_text("tags: [")
    index = Index([Repository("lab", str(lab.repo))], "/dev/null", write=False)
    assert complete(line, OURS, index) == candidates


def test_the_shell_asks_and_is_answered(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.script("get-x")
    monkeypatch.setenv(LINE, "cm complete script --sh")
    assert lab.call("complete").answer["return"] == 0
    monkeypatch.setenv(LINE, "cm run script get")
    assert lab.call("complete").out == "get-x\n"
    run = Path(lab.run("get,x").answer["record"]).parent.name
    monkeypatch.setenv(LINE, "cm log script ")
    assert lab.call("complete").out.splitlines() == [run, "last", "last~1"]
    for shell, text in SHELLS.items():
        assert lab.call("complete", shell=shell).out == text + "\n"
    assert lab.call("complete", shell="fish").answer["return"] == 4
    subprocess.run(["bash", "-n"], input=SHELLS["bash"], text=True, check=True)


def test_errors_of_the_index_do_not_reach_the_prompt(lab: Lab) -> None:
    index = Index([Repository("own", str(lab.repo), own=True)], "/dev/null", write=False)
    lab.script("get-x", unknown_key=1)
    with pytest.raises(Error):
        index.script(str(lab.repo / "script/get-x"))
    assert complete("cm run script get-x --mod", OURS, index) == []


def test_warnings_about_the_work_of_others_are_told_by_kind(lab: Lab) -> None:
    (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    for number in range(5):
        path = lab.script(f"get-x{number}")
        (path / "run.sh").write_text("echo $X\n")
    told = lab.call("lint", path=str(lab.repo)).out
    assert "5 warnings CMB401: " in told
    assert told.count("CMB401") == 3
    assert "cm lint script ... -v" in told
    every = lab.call("lint", path=str(lab.repo), v=True).out
    assert every.count("CMB401") == 5
    one = lab.call("lint", path=str(path)).out
    assert one.count("CMB401") == 1
    assert "-v" not in one


def test_all_scripts_of_all_repositories(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.script("get-x")
    monkeypatch.chdir(lab.home)
    assert "neither a script nor a repository" in lab.call("lint", "script").err
    assert "script" in lab.call("lint", "script", all=True).out
    assert "neither" not in lab.call("lint", "script", all=True).err
