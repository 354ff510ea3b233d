"""What a plan says about itself: reasons, misses, needs, origins of values, graphs."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from lab import Lab, Result
from support import Home, run

SETS = """
def preprocess(i):
    i['env']['{key}'] = '{value}'
    return {{'return': 0}}
"""


def refused(result: Result, code: str, *texts: str) -> None:
    assert result.answer["code"] == code, result.err
    for text in texts:
        assert text in result.err


def lines(result: Result) -> list[str]:
    assert result.answer["return"] == 0, result.err
    assert all(len(line) <= 80 for line in result.out.splitlines()), result.out
    return result.out.splitlines()


def origins(result: Result) -> list[tuple[str, str, str]]:
    assert result.answer["return"] == 0, result.err
    lines(result)
    return [
        (o["step"], o["where"], o["value"] if o["in_force"] else f"({o['value']})")
        for o in result.answer["explain"]["origins"]
    ]


@pytest.fixture
def app(lab: Lab) -> Lab:
    """An app that detects or installs a tool, with settings at every level."""
    lab.script(
        "install-tool",
        cache=True,
        new_env_keys=["TOOL_*"],
        env={"TOOL_PATH": "/opt/tool"},
        fetches=["https://example.org/tool.tgz"],
        licence="the tool's own licence",
        privileges=["root, to load its driver"],
        required_disk_space=1500,
    )
    lab.script(
        "get-tool",
        cache=True,
        new_env_keys=["TOOL_*"],
        customize=SETS.format(key="REQUIRE_INSTALL", value="yes"),
        prehook_deps=[{"tags": "install,tool", "enable_if_env": {"REQUIRE_INSTALL": ["yes"]}}],
    )
    lab.script(
        "run-app",
        default_env={"MODE": "safe"},
        input_mapping={"mode": "MODE", "device": "DEVICE"},
        deps=[
            {"tags": "get,tool", "names": ["tool"], "env": {"LEVEL": "3"}},
            {"tags": "use,tool", "enable_if_env": {"DEVICE": ["gpu"]}},
        ],
        variations={
            "gpu": {"group": "device", "env": {"DEVICE": "gpu"}},
            "cpu": {"group": "device", "default": True, "env": {"DEVICE": "cpu"}},
        },
    )
    lab.script("use-tool", customize="def preprocess(i):\n    i['env'].get('TOOL_PATH')\n")
    return lab


def test_both_arms_and_all_needs_are_shown(app: Lab) -> None:
    result = app.plan("run,app")
    text = lines(result)
    assert text[0].split() == ["run-app", "run"]
    assert text[1].split() == ["`-", "get-tool", "detect,", "make"]
    assert "else: install-tool" in text[2]
    assert text[2].endswith("make if REQUIRE_INSTALL from get-tool")
    assert "  https://example.org/tool.tgz, no checksum" in text
    assert "network: example.org" in text
    assert "disk:    at least about 1.5 GB with all branches, 1 step not known" in text
    assert "licence: install-tool: the tool's own licence" in text
    assert "root:    install-tool: root, to load its driver" in text
    totals = result.answer["plan"]["totals"]
    assert totals["disk_bytes"] == 1_500_000_000
    assert totals["licences"] == ["the tool's own licence"]
    tool = result.answer["plan"]["root"]["children"][0]
    assert tool["arms"] == {"detect": "get-tool", "acquire": ["install,tool"]}
    assert tool["asked"] == "a dependency of run-app (named tool)"


def test_what_is_cached_needs_nothing(app: Lab) -> None:
    assert app.run("run,app").answer["return"] == 0
    result = app.plan("run,app")
    assert "nothing to fetch from the network" in lines(result)
    assert result.answer["plan"]["totals"]["downloads"] == 0
    assert result.answer["plan"]["root"]["children"][0]["cached"] == "hit"


def test_size_and_time_are_those_of_last_time(lab: Lab) -> None:
    lab.script("make-file", cache=True, run="head -c 3000000 /dev/zero >file; sleep 0.3")
    lab.run("make,file")
    (lab.repo / "script/make-file/run.sh").write_text("head -c 3000000 /dev/zero >file; true")
    text = lines(lab.plan("make,file"))
    assert "disk:    about 3.0 MB" in text
    assert lab.plan("make,file").answer["plan"]["totals"]["seconds"] >= 0.3


def test_time_is_that_of_the_step_itself(lab: Lab) -> None:
    lab.script("a-b", cache=True, run="sleep 0.5")
    lab.script("c-d", deps=[{"tags": "a,b"}])
    lab.run("c,d")
    lab.call("delete", "cache", all=True, force=True)
    plan = lab.plan("c,d").answer["plan"]
    assert plan["root"]["seconds"] < 0.3
    assert 0.5 <= plan["totals"]["seconds"] < 2
    assert plan["totals"]["steps_of_unknown_time"] == 0


def test_code_that_can_call_sudo_is_named(lab: Lab) -> None:
    lab.script("a-b", run="# sudo is not used\ntrue")
    assert not [line for line in lines(lab.plan("a,b")) if line.startswith("root:")]
    lab.script("a-b", run='"$X" && sudo apt-get update')
    line = "root:    a-b: can call sudo, if you allow it"
    assert line in lines(lab.plan("a,b"))
    lab.script("c-d", deps=[{"tags": "a,b"}, {"tags": "a,b"}])
    assert lines(lab.plan("c,d")).count(line) == 1


def test_sizes_of_downloads_that_are_known_more_or_less(lab: Lab) -> None:
    lab.script("get-file", fetches=["<<<CM_DOWNLOAD_URL>>>"])
    env = {"CM_DOWNLOAD_URL": "https://h/a", "CM_DOWNLOAD_SIZE_ABOUT": "2000000"}
    exact = {"CM_DOWNLOAD_URL": "https://h/b", "CM_DOWNLOAD_SIZE": "1000000"}
    deps = [{"tags": "get,file", "env": values} for values in (env, {**env, **exact})]
    lab.script("get-both", deps=deps)
    shown = lines(lab.plan("get,both"))
    assert "  https://h/a (about 2.0 MB), no checksum" in shown
    assert "  https://h/b (1.0 MB), no checksum" in shown
    assert "  in all about 3.0 MB" in shown
    lab.script("get-both", deps=[*deps, {"tags": "get,file", "env": {"CM_DOWNLOAD_URL": "s3://c"}}])
    result = lab.plan("get,both")
    assert "  in all at least about 3.0 MB; the others are not known" in lines(result)
    assert result.answer["plan"]["totals"]["download_bytes_sure"] == 3_000_000


def test_what_may_not_be_needed_is_not_promised(lab: Lab) -> None:
    for name in "ab":
        file = {"fetches": [f"https://h/{name}"], "env": {"CM_DOWNLOAD_SIZE": "1000000"}}
        lab.script(f"get-{name}", cache=True, required_disk_space=2, **file)
    sets = "def preprocess(i):\n    i['env']['WANT'] = i['env'].get('W', 'no')\n"
    maybe = {"tags": "get,b", "enable_if_env": {"WANT": ["yes"]}}
    lab.script("get-both", customize=sets, deps=[{"tags": "get,a"}], prehook_deps=[maybe])
    shown = lines(lab.plan("get,both"))
    assert "  in all up to 2.0 MB" in shown
    assert "disk:    up to about 4.0 MB" in shown


@pytest.mark.parametrize(
    ("code", "fetches"),
    [
        ({"run": 'git clone "$URL"\n'}, True),
        ({"run": "sudo apt-get -y install gcc\n"}, True),
        ({"run": "# wget is not needed\necho curling\n"}, False),
        ({"customize": "from urllib.request import urlopen\nx = urlopen('http://h')\n"}, True),
        ({"customize": "HINT = 'install it: pip install x'\n"}, False),
    ],
)
def test_code_that_fetches_unsaid_is_named(lab: Lab, code: dict[str, str], fetches: bool) -> None:
    lab.script("get-x", **code)
    shown = lines(lab.plan("get,x"))
    assert ("  what get-x may fetch by itself" in shown) is fetches
    assert ("nothing to fetch from the network" in shown) is not fetches
    lab.script("get-x", fetches=["the x of h"], **code)
    assert "  the x of h" in lines(lab.plan("get,x"))
    assert "  what get-x may fetch by itself" not in lines(lab.plan("get,x"))


def test_what_is_open_is_not_left_out(lab: Lab) -> None:
    for name in "ab":
        lab.script(f"get-{name}", tags=f"get,one,{name}")
    sets = "def preprocess(i):\n    i['env']['WANTED'] = 'a'\n"
    dep = {"tags": "get,one", "update_tags_from_env": ["WANTED"]}
    lab.script("build-app", customize=sets, prehook_deps=[dep])
    result = lab.plan("build,app")
    assert "nothing to fetch from the network, but 1 step is open" in lines(result)
    assert result.answer["plan"]["totals"]["open_steps"] == 1
    lab.script("get-file", fetches=["https://h/a"], env={"CM_DOWNLOAD_SIZE": "1000"})
    lab.script("build-app", customize=sets, deps=[{"tags": "get,file"}], prehook_deps=[dep])
    assert "  in all at least 1.0 kB; the others are not known" in lines(lab.plan("build,app"))


def test_an_address_that_only_a_run_knows(lab: Lab) -> None:
    lab.script("get-file", fetches=["<<<CM_URL_X>>>"])
    shown = lines(lab.plan("get,file"))
    assert "  what CM_URL_X names: known only at run time" in shown
    assert "network: addresses not known yet" in shown


def test_lines_of_a_plan_fit_a_terminal(lab: Lab) -> None:
    lab.script(
        "get-with-a-very-long-name-that-goes-on-and-on", "get,file", variations={"url.#": {}}
    )
    key = "CM_SOMETHING_WITH_A_VERY_LONG_NAME_REQUIRES_THIS"
    entry = {"tags": "get,file,_url.https://host/" + "x" * 80, "enable_if_env": {key: ["yes"]}}
    customize = f"def preprocess(i):\n    i['env']['{key}'] = 'yes'\n    return {{'return': 0}}\n"
    lab.script("get-and-use-something-long", customize=customize, prehook_deps=[entry])
    shown = lines(lab.plan("get,and,use,something,long"))
    assert max(map(len, shown)) <= 80
    assert shown[1].startswith("`- else: get-with-a-")
    assert "...  run if CM_SOMETHING_WITH" in shown[1]


def test_json_holds_reasons_and_nothing_else_is_printed(app: Lab) -> None:
    data = json.loads(app.plan("run,app", json=True).out)
    assert data["root"]["variation_reasons"] == {"cpu": "default of group device"}
    assert data["root"]["children"][0]["misses"] == ["this script has made no entry yet"]


# ---------------------------------------------------------------- why


def test_why_names_variations_conditions_and_versions(app: Lab) -> None:
    text = "\n".join(lines(app.plan("run,app,_gpu", why=True, version="2.0")))
    assert ". with: _gpu: requested" in text
    assert ". version: asked for by the command" in text
    assert "DEVICE=gpu (DEVICE is gpu)" in text
    assert ". no hit: this script has made no entry yet" in text


def misses(lab: Lab, tags: str, **flags: Any) -> list[str]:
    found: list[str] = lab.plan(tags, **flags).answer["plan"]["root"]["misses"]
    return found


def test_every_difference_to_an_entry_is_reported(lab: Lab) -> None:
    read = (
        "def preprocess(i):\n    e = i['env']\n    e.get('A'), e.get('B')\n    return {'return': 0}"
    )
    made = {"cache": True, "customize": read, "input_mapping": {"a": "A", "b": "B"}}
    lab.script("c-x", **made, variations={"v": {}})
    assert misses(lab, "c,x", a="1") == ["this script has made no entry yet"]
    lab.run("c,x", a="1")
    assert misses(lab, "c,x", a="1") == []
    found = misses(lab, "c,x", a="2", b="3")
    assert [text.partition(": ")[2] for text in found] == [
        'A was "1", is "2"',
        'B was not set, is "3"',
    ]
    assert misses(lab, "c,x", a="1", new=True) == ["a new entry was asked for"]
    (other,) = misses(lab, "c,x,_v", a="1")
    assert other.endswith("has the variations none, wanted are _v")
    (bound,) = misses(lab, "c,x", a="1", version="3")
    assert "other version bounds" in bound
    (named,) = misses(lab, "c,x", a="1", name="mine")
    assert named.endswith("has the name (none)")
    lab.script("c-x", **{**made, "customize": read + " # edited"}, variations={"v": {}})
    (edited,) = misses(lab, "c,x", a="1")
    assert edited.endswith("the script was edited since")


# ---------------------------------------------------------------- explain


def test_default_input_and_caller(app: Lab) -> None:
    assert origins(app.plan("run,app", explain="MODE")) == [
        ("run-app", "default_env of the script", "safe")
    ]
    assert origins(app.plan("run,app", explain="MODE", mode="fast")) == [
        ("run-app", "default_env of the script", "(safe)"),
        ("run-app", "--mode on the command line", "fast"),
    ]
    assert origins(app.plan("run,app", explain="mode", env={"MODE": "x"})) == [
        ("run-app", "--env.MODE on the command line", "x"),
        ("run-app", "default_env of the script", "(safe)"),
    ]


def test_variation_const_and_condition(app: Lab) -> None:
    found = origins(app.plan("run,app,_gpu", explain="DEVICE", const={"DEVICE": "tpu"}))
    assert found[:2] == [
        ("run-app,_gpu", "env of variation _gpu (requested)", "(gpu)"),
        ("run-app,_gpu", "--const.DEVICE on the command line", "tpu"),
    ]
    assert len(found) == 2


def test_dependency_entry_and_updates_by_name(app: Lab) -> None:
    ours = "the dependency in the meta of run-app"
    assert ("get-tool", ours, "3") in origins(app.plan("run,app", explain="LEVEL"))
    given = app.plan("run,app", explain="LEVEL", adr={"tool": {"env": {"LEVEL": "9"}}})
    assert ("get-tool", "--adr.tool on the command line", "9") in origins(given)


def test_what_a_step_gives_back_or_will_give_back(app: Lab) -> None:
    before = origins(app.plan("run,app,_gpu", explain="TOOL_PATH"))
    assert ("get-tool", "will be set by install-tool when it has run", "") in before
    app.run("run,app,_gpu")
    after = origins(app.plan("run,app,_gpu", explain="TOOL_PATH"))
    assert ("run-app,_gpu", "given back by the cached entry of get-tool", "/opt/tool") in after


def test_code_that_can_set_it_and_references(lab: Lab) -> None:
    lab.script(
        "a-b",
        env={"BASE": "/x", "FULL": "<<<BASE>>>/y"},
        customize=SETS.format(key="BASE", value="z"),
    )
    assert origins(lab.plan("a,b", explain="FULL")) == [
        ("a-b", "env of the script", "<<<BASE>>>/y"),
        ("a-b", "with its references filled in", "/x/y"),
    ]
    assert ("a-b", "its own code can set it", "") in origins(lab.plan("a,b", explain="BASE"))


def test_versions_have_origins(lab: Lab) -> None:
    lab.script("a-b", default_version="1.4")
    default = origins(lab.plan("a,b", explain="CM_VERSION"))
    assert default == [
        ("a-b", "version default_version of the script or variation", "1.4"),
    ]
    asked = origins(lab.plan("a,b", explain="CM_VERSION", version="2"))
    assert asked == [("a-b", "version asked for by the command", "2")]


def test_names_given_to_dependencies(app: Lab) -> None:
    found = origins(app.plan("run,app", explain="CM_NAME", adr={"tool": {"name": "mine"}}))
    assert found == [("get-tool", "--name: --adr.tool on the command line", "mine")]


def test_who_reads_it_and_how_to_set_it(app: Lab) -> None:
    result = app.plan("run,app,_gpu", explain="TOOL_PATH")
    text = lines(result)
    assert "is <from install-tool> for use-tool" in text
    assert text[-1] == "to set it: --env.TOOL_PATH=VALUE"
    assert lines(app.plan("run,app", explain="MODE"))[-1] == "to set it: --mode=VALUE"
    app.script("use-it", customize="def preprocess(i):\n    i['env'].get('LONELY')\n")
    text = lines(app.plan("use,it", explain="LONELY"))
    assert text[:2] == ["LONELY: nothing sets it", "is not set for use-it"]


def test_secrets_stay_secret(lab: Lab) -> None:
    lab.script("a-b", input_mapping={"key": "MY_TOKEN"})
    result = lab.plan("a,b", explain="MY_TOKEN", key="verysecret")
    assert "verysecret" not in result.out + json.dumps(result.answer)
    assert origins(result) == [("a-b", "--key on the command line", "***")]


def test_wrong_uses_are_refused(app: Lab) -> None:
    refused(app.plan("run,app", explain="MODEE"), "bad-value", 'did you mean "MODE"')
    refused(app.plan("run,app", explain=True), "bad-value", "--explain=KEY")
    refused(app.plan("run,app", dot=True, mermaid=True), "bad-value", "exclude each other")
    refused(app.run("run,app", why=True), "unknown-flag", "cm plan script")


def test_a_reader_that_has_seen_enough_is_no_failure(home: Home) -> None:
    home.cm("find", "script").ok()  # the first command of a home prints more, by cmind itself
    for words in ("find script", "help script", "run script --tags=detect,os"):
        shell = ["bash", "-c", f"cm {words} | true; exit ${{PIPESTATUS[0]}}"]
        done = run(shell, cwd=home.path, env=home.environment())
        assert (done.status, done.stderr) == (0, ""), words


# ---------------------------------------------------------------- graphs


def test_mermaid(app: Lab) -> None:
    text = app.plan("run,app", mermaid=True).out
    assert text.startswith("flowchart LR\n")
    assert '  n0["run-app<br/>_cpu<br/>[run]"]:::no' in text
    assert '  n1 -. "if REQUIRE_INSTALL from get-tool" .-> n2' in text
    assert "classDef miss" in text


def test_dot(app: Lab) -> None:
    text = app.plan("run,app", dot=True).out
    assert text.startswith("digraph plan {\n")
    assert "n0 -> n1;" in text
    if shutil.which("dot"):
        done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_equal_steps_are_one_node_of_a_graph(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.script("use-x", deps=[{"tags": "get,x"}])
    lab.script("top-x", deps=[{"tags": "get,x"}, {"tags": "use,x"}])
    text = lab.plan("top,x", mermaid=True).out
    assert text.count('["get-x') == 1
    assert text.count("-->") == 3


def test_a_key_that_shared_code_reads_is_read_by_the_script(lab: Lab) -> None:
    lab.script("get-tool", customize="from cmbench.lib.tools import bounds_of\n")
    assert lab.run("get,tool").answer["return"] == 0
    assert lab.plan("get,tool", explain="CM_VERSION_MIN").answer["explain"]["readers"]
