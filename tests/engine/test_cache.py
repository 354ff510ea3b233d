"""When a cache entry is used again, when not, and what is said of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from lab import Lab

READ = """
def preprocess(i):
    env = i['env']
    env['OUT'] = env.get('LEVEL', 'none')
    return {'return': 0, 'version': '1.0'}
"""


@pytest.fixture
def reader(lab: Lab) -> Lab:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        customize=READ,
        input_mapping={"level": "LEVEL", "other": "OTHER"},
    )
    return lab


def why(lab: Lab, **flags: object) -> str:
    return str(lab.run("get,x", **flags).record["steps"][-1]["why"])


def test_an_input_that_matters_splits_and_others_do_not(reader: Lab) -> None:
    assert reader.run("get,x", level="a").env["OUT"] == "a"
    assert reader.run("get,x", level="b").env["OUT"] == "b"
    assert reader.run("get,x", level="a").answer["cached"]
    assert reader.run("get,x", level="a", other="z").answer["cached"]
    assert reader.run("get,x", level="a", env={"UNREAD": "1"}).answer["cached"]
    assert reader.run("get,x").env["OUT"] == "none"
    assert len(reader.store.entries()) == 3


def test_an_edited_script_never_returns_its_old_result(reader: Lab) -> None:
    assert reader.run("get,x").env["OUT"] == "none"
    reader.script("get-x", cache=True, new_env_keys=["OUT"], customize=READ.replace("none", "new"))
    assert reader.run("get,x").env["OUT"] == "new"


def test_an_edited_uncached_dependency_counts_too(lab: Lab) -> None:
    lab.script("c-dep", new_env_keys=["D"], env={"D": "1"})
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        deps=[{"tags": "c,dep"}],
        customize=READ.replace("LEVEL", "D"),
    )
    assert lab.run("get,x").env["OUT"] == "1"
    lab.script("c-dep", new_env_keys=["D"], env={"D": "2"})
    assert "c-dep was edited" in why(lab)
    assert lab.run("get,x").env["OUT"] == "2"


def test_what_a_dependency_read_counts_for_its_caller(lab: Lab) -> None:
    lab.script("get-dep", cache=True, new_env_keys=["OUT"], customize=READ)
    lab.script("get-x", cache=True, new_env_keys=["OUT"], deps=[{"tags": "get,dep"}])
    assert lab.run("get,x", env={"LEVEL": "1"}).env["OUT"] == "1"
    assert lab.run("get,x", env={"LEVEL": "2"}).env["OUT"] == "2"
    assert lab.run("get,x", env={"LEVEL": "1"}).answer["cached"]


def test_what_a_caller_has_is_not_what_a_setting_gives_back(lab: Lab) -> None:
    lab.script("get-x", cache=True, new_env_keys=["LEVEL"], input_mapping={"level": "LEVEL"})
    lab.script("use-x", new_env_keys=["LEVEL"], deps=[{"tags": "get,x", "names": ["x"]}])
    call = {"adr": {"x": {"level": "1"}}}
    # The same value reaches get,x both times, but only the second call has it from a setting.
    lab.run("use,x", env={"LEVEL": "1"})
    assert lab.run("use,x", **call).env == {"LEVEL": "1"}
    assert lab.run("use,x", **call).answer["new_env"] == {"LEVEL": "1"}


def test_a_removed_dependency_entry_makes_its_users_stale(lab: Lab) -> None:
    lab.script(
        "get-dep",
        cache=True,
        new_env_keys=["D_PATH"],
        customize="""
import os
def preprocess(i):
    i['env']['D_PATH'] = os.getcwd()
    return {'return': 0}
""",
    )
    lab.script("get-x", cache=True, new_env_keys=["D_PATH"], deps=[{"tags": "get,dep"}])
    first = lab.run("get,x").env["D_PATH"]
    assert Path(first).is_dir()
    assert lab.call("delete", "cache", tags="get,dep", force=True).answer["removed"]
    assert not Path(first).exists()
    assert "is gone" in why(lab)
    assert Path(lab.run("get,x").env["D_PATH"]).is_dir()


def test_an_entry_relies_on_files_outside(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["T"],
        customize=f"""
import pathlib
def preprocess(i):
    i['env']['T'] = open({str(tool)!r}).read()
    return {{'return': 0, 'relies_on': [pathlib.Path({str(tool)!r})]}}
""",
    )
    assert lab.run("get,x").env["T"] == "1"
    assert lab.run("get,x").answer["cached"]
    tool.write_text("22")
    assert f"{tool} was" in why(lab)
    assert lab.run("get,x").env["T"] == "22"
    tool.unlink()
    assert lab.run("get,x").answer["return"] == 1


def test_code_that_native_scripts_share_is_a_part_of_each(lab: Lab) -> None:
    source = lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        run='source "${CM_TMP_CURRENT_SCRIPT_PATH}/../common/env.sh"\n'
        'echo "OUT=$(bash "${SHARED}/tool.sh")" > tmp-run-env.out',
    )
    shared = source.parent / "common"
    (shared / "src").mkdir(parents=True)
    (shared / "env.sh").write_text('SHARED="${CM_TMP_CURRENT_SCRIPT_PATH}/../common/src"\n')
    (shared / "src" / "tool.sh").write_text("echo 1")
    assert lab.run("get,x").env["OUT"] == "1"
    assert lab.run("get,x").answer["cached"]
    (shared / "src" / "tool.sh").write_text("echo 22")
    assert lab.run("get,x").env["OUT"] == "22"
    assert lab.run("get,x").answer["cached"]


def test_facts_of_the_machine_count_where_they_are_read(lab: Lab, tmp_path: Path) -> None:
    fact = tmp_path / "driver"
    fact.write_text("535")
    lab.script(
        "detect-driver",
        host_facts=True,
        new_env_keys=["DRIVER*"],
        customize=f"""
def preprocess(i):
    i['env']['DRIVER'] = open({str(fact)!r}).read()
    i['env']['DRIVER_OTHER'] = open({str(fact)!r}).read()
    return {{'return': 0}}
""",
    )
    deps = [{"tags": "detect,driver"}]
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        deps=deps,
        customize=READ.replace("LEVEL", "DRIVER"),
    )
    lab.script("get-y", cache=True, new_env_keys=["OUT"], deps=deps, customize=READ)
    lab.run("get,x")
    lab.run("get,y")
    assert lab.run("get,x").answer["cached"]
    fact.write_text("550")
    assert lab.run("get,y").answer["cached"]
    assert "DRIVER of this machine has changed" in why(lab)
    assert lab.run("get,x").env["OUT"] == "550"


def test_a_native_script_reads_every_word_it_names(lab: Lab) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        run='echo "OUT=${LEVEL:-none}$(bash "$CM_TMP_CURRENT_SCRIPT_PATH/src/tool.sh")" '
        "> tmp-run-env.out",
        files={"src/tool.sh": 'echo "$CM_DEEP"'},
    )
    assert lab.run("get,x").env["OUT"] == "none"
    assert lab.run("get,x", env={"LEVEL": "a"}).env["OUT"] == "a"
    assert lab.run("get,x", env={"LEVEL": "a", "CM_DEEP": "b"}).env["OUT"] == "ab"
    assert lab.run("get,x", env={"UNNAMED": "1"}).answer["cached"]


def test_a_native_program_reads_every_input_and_what_the_process_has(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = "import os\nprint('OUT=' + os.environ.get('MODE', 'none') + os.environ.get('X', ''))\n"
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        input_mapping={"mode": "MODE", "deep": "DEEP"},
        run='python3 "$CM_TMP_CURRENT_SCRIPT_PATH/helper.py" > tmp-run-env.out\n'
        'name=DEEP; echo "OUT=$(tail -c +5 tmp-run-env.out)${!name:-}$SOME_HOME" > tmp-run-env.out',
        files={"helper.py": helper},
    )
    monkeypatch.setenv("SOME_HOME", "")
    assert lab.run("get,x", mode="one").env["OUT"] == "one"
    assert lab.run("get,x", mode="two").env["OUT"] == "two"
    assert lab.run("get,x", env={"MODE": "five"}).env["OUT"] == "five"
    assert lab.run("get,x", mode="one", deep="er").env["OUT"] == "oneer"
    assert lab.run("get,x", mode="one").answer["cached"]
    monkeypatch.setenv("X", "!")
    assert lab.run("get,x", mode="one").env["OUT"] == "one!"
    monkeypatch.setenv("SOME_HOME", "/h")
    assert lab.run("get,x", mode="one").env["OUT"] == "one!/h"


def test_variables_of_the_process_that_a_script_reads(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        customize="""
import os
def preprocess(i):
    i['env']['OUT'] = os.environ.get('SOME_HOME', 'unset')
    return {'return': 0}
""",
    )
    assert lab.run("get,x").env["OUT"] == "unset"
    monkeypatch.setenv("SOME_HOME", "/there")
    assert lab.run("get,x").env["OUT"] == "/there"
    assert lab.run("get,x").answer["cached"]


def test_an_entry_that_read_the_whole_environment_is_reused_by_the_next_command(lab: Lab) -> None:
    lab.script(
        "get-it",
        cache=True,
        customize="import os\ndef preprocess(i):\n    dict(os.environ)\n    return {'return': 0}\n",
    )
    for status in ("done", "cached"):
        assert lab.run("get,it").record["steps"][0]["status"] == status
        # The mark of a hook's programs stays behind in this process, and is in no new one.
        os.environ.pop("CM_TMP_RUN_DIR", None)


def test_a_name_registers_and_chooses(reader: Lab) -> None:
    made = reader.run("get,x", name="mine", level="a")
    assert "name-mine" in reader.store.entries()[0].tags
    again = reader.run("get,x", name="mine")
    assert again.answer["cached"]
    assert again.env == made.env
    assert reader.run("get,x", name="yours").env["OUT"] == "none"


def test_a_newer_registration_counts_and_an_edited_script_does_not_undo_one(lab: Lab) -> None:
    def write(tail: str = "") -> None:
        lab.script(
            "get-reg",
            cache=True,
            new_env_keys=["OUT"],
            customize=READ + tail,
            input_mapping={"level": "LEVEL"},
        )

    write()
    lab.script(
        "get-x", cache=True, new_env_keys=["OUT"], deps=[{"tags": "get,reg", "names": ["r"]}]
    )
    chosen = {"adr": {"r": {"name": "n"}}}
    lab.run("get,reg", name="n", level="1")
    assert lab.run("get,x", **chosen).env["OUT"] == "1"
    lab.run("get,reg", name="n", level="2", new=True)
    assert lab.run("get,x", **chosen).env["OUT"] == "2"
    write("# edited")
    assert lab.run("get,x", **chosen).answer["cached"]
    assert lab.run("get,reg", name="n").env["OUT"] == "2"


def test_a_file_of_another_step_is_none_of_this_ones(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    key = "CM_GET_DEPENDENT_CACHED_PATH"
    lab.script("get-file", new_env_keys=[key], env={key: str(file)})
    lab.script("get-x", cache=True)
    lab.script("p-top", deps=[{"tags": "get,file"}, {"tags": "get,x"}])
    lab.run("p,top")
    file.write_text("changed")
    assert lab.run("p,top").status["get-x"] == "cached"


def test_default_variation_and_requested_one_are_not_confused(lab: Lab) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["DEVICE"],
        variations={
            "cpu": {"group": "d", "default": True, "env": {"DEVICE": "cpu"}},
            "cuda": {"group": "d", "env": {"DEVICE": "cuda"}},
        },
    )
    assert lab.run("get,x,_cuda").env["DEVICE"] == "cuda"
    assert lab.run("get,x").env["DEVICE"] == "cpu"
    assert lab.run("get,x,_cpu").answer["cached"]
    assert lab.run("get,x,_cpu").env["DEVICE"] == "cpu"


def test_new_and_renew(reader: Lab) -> None:
    first = reader.run("get,x").answer["entry"]
    assert reader.run("get,x", renew=True).answer["entry"] != first
    assert len(reader.store.entries()) == 1
    assert reader.run("get,x", skip_cache=True).answer["entry"] == ""


@pytest.fixture
def chain(lab: Lab) -> Lab:
    """``top`` of ``other`` and ``middle``, which stands on ``base`` and, uncached, ``helper``."""
    needs = {"middle": ("base", "helper"), "top": ("other", "middle")}
    for name in ("base", "helper", "other", "middle", "top"):
        deps = [{"tags": f"get,{need}"} for need in needs.get(name, ())]
        lab.script(f"get-{name}", cache=name != "helper", deps=deps)
    lab.run("get,top")
    return lab


@pytest.mark.parametrize(
    ("script", "done"),
    [
        ("get-base", {"get-base", "get-helper", "get-middle", "get-top"}),
        ("get-helper", {"get-helper", "get-middle", "get-top"}),
        ("get-other,get-base", {"get-other", "get-base", "get-helper", "get-middle", "get-top"}),
        ("get-top", {"get-top"}),
    ],
)
def test_a_run_goes_on_from_a_script(chain: Lab, script: str, done: set[str]) -> None:
    assert chain.run("get,top").status == {"get-top": "cached"}
    entries = len(chain.store.entries())
    found = chain.run("get,top", renew_from=script).status
    assert {name for name, status in found.items() if status == "done"} == done
    assert len(chain.store.entries()) == entries, "what was made before is replaced"
    assert chain.run("get,top").status == {"get-top": "cached"}


def test_a_script_to_go_on_from_is_known_and_met(chain: Lab) -> None:
    for refused in (chain.run, chain.plan):
        done = refused("get,top", renew_from="get-bas")
        assert done.answer["code"] == "script-not-found"
        assert 'did you mean "get-base"' in done.err
    assert "get-base has to run again" in chain.plan("get,top", renew_from="get-base", why=True).out
    assert "get-base has to run again" not in chain.plan("get,other", renew_from="get-base").out
    said = chain.run("get,other", renew_from="get-base")
    assert "--renew_from=get-base: no step of this run is that script" in said.out + said.err


def test_secrets_stay_out_of_entries_records_and_logs(lab: Lab) -> None:
    secret = "hunter2hunter2"
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        customize="""
def preprocess(i):
    token = i['env'].get('CM_HF_TOKEN')
    print('using https://user:' + token + '@example.org/x?token=' + token)
    print('plainly', token)
    i['env']['OUT'] = 'ok'
    return {'return': 0}
""",
    )
    result = lab.run("get,x", env={"CM_HF_TOKEN": secret}, cmd=[f"--env.CM_HF_TOKEN={secret}"])
    assert result.env["OUT"] == "ok"
    for path in lab.home.rglob("*"):
        if path.is_file():
            assert secret not in path.read_text(errors="replace"), path


def test_a_secret_that_is_given_back_is_had_from_the_caller_only(lab: Lab) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["CM_HF_TOKEN", "CM_ADDRESS", "OUT"],
        customize="""
def preprocess(i):
    env = i['env']
    env['CM_HF_TOKEN'] = env.get('CM_HF_TOKEN') or 'made-up-here'
    env['CM_ADDRESS'] = env.get('CM_ADDRESS') or 'https://me:made-up-here@example.org/x'
    env['OUT'] = 'ok'
    return {'return': 0}
""",
    )
    given = {"CM_HF_TOKEN": "hunter2x", "CM_ADDRESS": "https://me:hunter2x@example.org/x"}
    first = lab.run("get,x", env=given)
    again = lab.run("get,x", env=given)
    assert again.answer["entry"] == first.answer["entry"]
    assert {key: again.env[key] for key in given} == given

    lab.call("delete", "cache", tags="get,x", force=True)
    made = lab.run("get,x")
    once_more = lab.run("get,x")
    assert once_more.env["CM_HF_TOKEN"] == made.env["CM_HF_TOKEN"] == "made-up-here"
    assert once_more.answer["entry"] != made.answer["entry"]
    plan = lab.call("plan", "script", tags="get,x", why=True)
    assert "gave back the secret CM_" in plan.out
    for path in (lab.home / "cmbench/v1").rglob("*"):
        if path.is_file():
            content = path.read_text(errors="replace")
            assert "hunter2x" not in content, path
            assert "made-up-here" not in content, path


def test_a_secret_deep_in_a_state_stays_out_of_the_cache(lab: Lab) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_state_keys=["site"],
        customize="""
def preprocess(i):
    i['state']['site'] = {'mirrors': [{'api_token': 'hunter2x'}]}
    return {'return': 0}
""",
    )
    assert lab.run("get,x").answer["new_state"]["site"]["mirrors"] == [{"api_token": "hunter2x"}]
    for path in (lab.home / "cmbench").rglob("*"):
        if path.is_file():
            assert "hunter2x" not in path.read_text(errors="replace"), path


def test_a_tokenizer_is_no_secret(lab: Lab) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["CM_MODEL_TOKENIZER_PATH", "CM_DATA_TOKENIZED_PATH"],
        customize="""
import os
def preprocess(i):
    i['env']['CM_MODEL_TOKENIZER_PATH'] = i['env']['CM_DATA_TOKENIZED_PATH'] = os.getcwd()
    return {'return': 0}
""",
    )
    made = lab.run("get,x")
    again = lab.run("get,x")
    assert again.answer["entry"] == made.answer["entry"]
    assert again.env == made.env


def test_unreadable_metadata_costs_only_that_entry(reader: Lab) -> None:
    reader.run("get,x", level="a")
    reader.run("get,x", level="b")
    broken = next((reader.home / "cmbench/v1/entries").rglob("*.json"))
    broken.write_text(broken.read_text()[:40])
    assert len(reader.store.entries()) == 1
    assert reader.run("get,x", level="a").env["OUT"] == "a"
    assert reader.run("get,x", level="b").env["OUT"] == "b"


def test_show_and_remove(reader: Lab) -> None:
    reader.run("get,x", level="a")
    shown = reader.call("show", "cache", tags="get,x")
    assert "get-x" in shown.out
    assert "1 entry" in shown.out
    assert reader.call("show", "cache", tags="get,y").out.strip() == "no cache entry matches"
    assert reader.call("delete", "cache").answer["return"] == 4
    refused = reader.call("show", "cache", tag="get,x")
    assert "--tag" in refused.err
    assert 'did you mean "tags"?' in refused.err
    removed = reader.call("delete", "cache", tags="get,x", force=True)
    assert len(removed.answer["removed"]) == 1
    store = reader.home / "cmbench/v1/store"
    assert list(store.iterdir()) == []


def test_a_damaged_index_is_only_slow(reader: Lab) -> None:
    reader.run("get,x")
    database = reader.home / "cmbench/index.db"
    database.write_bytes(b"not a database" * 100)
    assert reader.run("get,x").answer["return"] == 0
    assert reader.call("search", tags="get,x").answer["list"][0]["alias"] == "get-x"


def test_entries_hold_no_path_of_the_place_where_they_were_made(reader: Lab) -> None:
    entry = reader.run("get,x").answer["entry"]
    text = json.dumps([str(p) for p in Path(reader.home).rglob("*") if p.is_dir()])
    assert entry.rpartition("/")[2] in text
    assert os.listdir(reader.home / "cmbench/v1/staging") == []


# ---------------------------------------------------------------- changed while a step works


def test_what_changes_while_a_step_works_is_no_hit(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["T"],
        customize=f"""
def preprocess(i):
    return {{'return': 0, 'relies_on': [{str(tool)!r}]}}
""",
        run=f"echo T=$(cat {tool}) > tmp-run-env.out; [ -e {tmp_path}/once ] || echo 22 > {tool}\n"
        f"touch {tmp_path}/once",
    )
    assert lab.run("get,x").env["T"] == "1"
    again = lab.run("get,x")
    assert (again.env["T"], again.answer["cached"]) == ("22", False)
    assert lab.run("get,x").answer["cached"]


@pytest.mark.parametrize("middle", [False, True])
def test_what_an_uncached_dependency_relies_on_is_the_parents_too(
    lab: Lab, tmp_path: Path, middle: bool
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    lab.script(
        "detect-y",
        new_env_keys=["T"],
        customize=f"""
def preprocess(i):
    i['env']['T'] = open({str(tool)!r}).read()
    return {{'return': 0, 'relies_on': [{str(tool)!r}]}}
""",
    )
    lab.script("detect-m", deps=[{"tags": "detect,y"}], new_env_keys=["T"])
    wanted = "detect,m" if middle else "detect,y"
    lab.script("get-x", cache=True, deps=[{"tags": wanted}], new_env_keys=["U"], run=COPY)
    assert lab.run("get,x").env["U"] == "1"
    assert lab.run("get,x").answer["cached"]
    tool.write_text("22")
    assert lab.run("get,x").env["U"] == "22"


COPY = "echo U=$T > tmp-run-env.out"


def test_a_script_that_is_edited_while_the_run_goes_on(lab: Lab, tmp_path: Path) -> None:
    """A is planned, B runs, A is there again: what B made is not what A makes."""
    path = lab.repo / "script/get-x/run.sh"
    lab.script(
        "get-slow",
        cache=True,
        run=f"[ -e {tmp_path}/once ] || sed -i s/=A/=B/ {path}\ntouch {tmp_path}/once",
    )
    lab.script(
        "get-x",
        cache=True,
        deps=[{"tags": "get,slow"}],
        new_env_keys=["OUT"],
        run=f"echo OUT=A > tmp-run-env.out\ncp -p {tmp_path}/saved {path}",
    )
    shutil.copy2(path, tmp_path / "saved")
    assert lab.run("get,x").env["OUT"] == "B"
    assert "during that run" in why(lab)
    assert lab.run("get,x").env["OUT"] == "A"


def test_a_failure_that_was_gone_on_without_is_tried_again(lab: Lab, tmp_path: Path) -> None:
    lab.script(
        "get-tool",
        cache=True,
        new_env_keys=["T"],
        run=f"echo T=$(cat {tmp_path}/tool)\n"
        f"cat {tmp_path}/tool > /dev/null; echo T=1 > tmp-run-env.out",
    )
    wanted = {"tags": "get,tool", "continue_on_error": True}
    lab.script("detect-m", deps=[wanted], new_env_keys=["T"])
    lab.script(
        "get-x",
        cache=True,
        deps=[{"tags": "detect,m"}],
        new_env_keys=["U"],
        run="echo U=${T:-none} > tmp-run-env.out",
    )
    assert lab.run("get,x").env["U"] == "none"
    assert "had failed" in why(lab)
    (tmp_path / "tool").write_text("1")
    assert lab.run("get,x").env["U"] == "1"
    assert lab.run("get,x").answer["cached"]


# ---- what a user has handed in


REGISTERING = """\
def preprocess(i):
    env = i["env"]
    given = env.get("CM_REG_FILE")
    if not given and not env.get("CM_REG_FOUND"):
        return {"return": 1, "error": "there is none"}
    env["CM_REG_OUT"] = given or env["CM_REG_FOUND"]
    version = str(env["CM_REG_OUT"])[-1] + ".0"
    return {"return": 0, "version": version}
"""


@pytest.fixture
def registering(lab: Lab) -> Lab:
    lab.script(
        "reg",
        tags="get,reg",
        cache=True,
        registered_by=["CM_REG_FILE"],
        input_mapping={"file": "CM_REG_FILE", "found": "CM_REG_FOUND", "mode": "CM_REG_MODE"},
        new_env_keys=["CM_REG_OUT"],
        variations={"lean": {"env": {"CM_REG_LEAN": "yes"}}},
        customize=REGISTERING,
    )
    lab.script("user", deps=[{"tags": "get,reg"}], new_env_keys=["CM_REG_OUT"])
    return lab


def test_what_was_handed_in_is_found_without_its_input(registering: Lab) -> None:
    lab = registering
    assert lab.run("get,reg").answer["return"] == 1
    assert lab.run("get,reg", file="/x/1").status["reg"] == "done"
    again = lab.run("get,reg")
    assert (again.status["reg"], again.env["CM_REG_OUT"]) == ("cached", "/x/1")
    assert lab.run("user").env["CM_REG_OUT"] == "/x/1"


def test_another_one_that_is_handed_in_is_made_and_the_last_counts(registering: Lab) -> None:
    lab = registering
    for file in ("/x/1", "/x/2"):
        assert lab.run("get,reg", file=file).env["CM_REG_OUT"] == file
    assert lab.run("get,reg").env["CM_REG_OUT"] == "/x/2"
    assert lab.run("get,reg", file="/x/1").env["CM_REG_OUT"] == "/x/1"
    assert lab.run("get,reg", version_max="1.5").env["CM_REG_OUT"] == "/x/1"
    assert lab.run("get,reg", version_min="3.0").answer["return"] == 1


def test_only_a_call_that_is_alike_is_answered(registering: Lab) -> None:
    lab = registering
    lab.run("get,reg", file="/x/1")
    assert lab.run("get,reg,_lean").answer["return"] == 1
    assert lab.run("get,reg", found="/y/1").env["CM_REG_OUT"] == "/y/1"
    assert lab.run("get,reg", new=True).answer["return"] == 1


def test_what_was_found_for_the_same_call_goes_before(registering: Lab) -> None:
    lab = registering
    lab.run("get,reg", found="/y/1")
    lab.run("get,reg", file="/x/1")
    assert lab.run("get,reg", found="/y/1").env["CM_REG_OUT"] == "/y/1"


def test_an_input_that_is_local_is_hidden_from_dependencies(lab: Lab) -> None:
    lab.script("get-x", cache=True, new_env_keys=["OUT"], customize=READ)
    lab.script(
        "user",
        deps=[{"tags": "get,x"}],
        input_mapping={"level": "LEVEL"},
        local_env_keys=["LEVEL"],
        new_env_keys=["OUT"],
    )
    assert lab.run("user", level="a").env["OUT"] == "none"
