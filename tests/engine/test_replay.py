"""Records compared and repeated, and lock files: what they pin, what they refuse."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, Result
from support import Finished


def refused(result: Result, code: str, *texts: str) -> None:
    assert result.answer["code"] == code, result.err
    for text in texts:
        assert text in result.err


def narrow(result: Result) -> str:
    assert result.answer["return"] == 0, result.err
    # Paths stay whole.
    long = [line for line in result.out.splitlines() if len(line) > 80 and "/" not in line]
    assert not long
    return result.out


TOOL = """
def preprocess(i):
    env = i['env']
    version = env.get('CM_VERSION') or open({newest!r}).read().strip()
    env['TOOL_VERSION'] = version
    return {{'return': 0, 'version': version}}
"""


@pytest.fixture
def app(lab: Lab) -> Lab:
    """``get-tool`` takes the newest version there is, unless one is asked for."""
    newest = lab.repo / "newest"
    newest.write_text("1.0")
    lab.script(
        "get-tool", cache=True, new_env_keys=["TOOL_*"], customize=TOOL.format(newest=str(newest))
    )
    lab.script(
        "run-app",
        input_mapping={"mode": "MODE", "key": "MY_TOKEN"},
        new_env_keys=["RESULT"],
        deps=[{"tags": "get,tool"}],
        customize="""
import os
def preprocess(i):
    i['env']['RESULT'] = i['env'].get('MODE', 'safe') + ' ' + i['env']['TOOL_VERSION']
    i['env'].get('MY_TOKEN')
    os.environ.get('APP_COLOUR')
    return {'return': 0}
""",
    )
    return lab


def run_id(result: Result) -> str:
    return Path(result.answer["record"]).parent.name


def newer_tool(lab: Lab) -> None:
    """There is a newer tool now, and nothing of the old one is left."""
    (lab.repo / "newest").write_text("2.0")
    lab.call("delete", "cache", all=True, force=True)


# ---------------------------------------------------------------- replay


def test_a_record_holds_the_call(app: Lab) -> None:
    record = app.run("run,app", mode="fast", env={"X": "1"}).record
    assert record["flags"] == {
        "tags": "run,app",
        "mode": "fast",
        "env": {"X": "1"},
    }
    assert record["directory"] == os.getcwd()


def test_a_run_is_repeated_with_its_inputs(app: Lab) -> None:
    first = app.run("run,app", mode="fast")
    again = app.call("replay", artifact=run_id(first))
    text = narrow(again)
    assert f"repeating {run_id(first)}" in text
    assert "the same: repositories, scripts, machine and variables" in text
    assert f"every step has the same versions and outputs as in {run_id(first)}" in text
    assert again.env == {"RESULT": "fast 1.0"}
    assert again.answer["not_as_it_was"] == []


def test_last_a_path_and_a_directory_name_the_same_run(app: Lab) -> None:
    first = app.run("run,app", mode="fast")
    path = Path(first.answer["record"])
    for word in (str(path), str(path.parent), path.parent.name):
        assert app.call("replay", artifact=word).env == {"RESULT": "fast 1.0"}
    assert app.call("replay", artifact="last", mode="slow").env == {"RESULT": "slow 1.0"}


def test_versions_are_repeated_though_there_are_newer_ones(app: Lab) -> None:
    first = app.run("run,app")
    newer_tool(app)
    assert app.call("replay", artifact=run_id(first)).env == {"RESULT": "safe 1.0"}
    assert app.run("run,app", new=True).env["RESULT"].startswith("safe")


def test_what_cannot_be_repeated_is_said(app: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_COLOUR", "red")
    first = app.run("run,app")
    monkeypatch.setenv("APP_COLOUR", "blue")
    data = json.loads(Path(first.answer["record"]).read_text())
    data["host"]["cpus"] = 4096
    data["directory"] = "/nowhere/at/all"
    Path(first.answer["record"]).write_text(json.dumps(data))
    with (app.repo / "script/get-tool/customize.py").open("a") as stream:
        stream.write("# edited\n")
    again = app.call("replay", artifact=run_id(first))
    text = narrow(again)
    assert "differs from then:\n" in text
    edited = "the script get-tool was edited since, it runs as it is now (newer: customize.py)"
    assert edited in " ".join(text.split())
    assert f"  cpus of the machine was 4096, is {os.cpu_count()}" in text
    assert "  its working directory /nowhere/at/all is gone" in text
    assert "  the variable APP_COLOUR has changed" in text


def test_what_lies_outside_and_the_whole_environment_are_named_in_words(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("APP_COLOUR", "red")
    place = tmp_path / "their.conf"
    place.write_text("1")
    lab.script(
        "run-app",
        cache=True,
        customize="""
import os
def preprocess(i):
    len(dict(os.environ)), os.path.exists(os.path.expanduser('~/their.conf'))
    return {'return': 0}
""",
    )
    first = run_id(lab.run("run,app"))
    os.environ.pop("CM_TMP_RUN_DIR")  # it is in no new process
    again = lab.call("replay", artifact=first)
    assert "the same: repositories, scripts, machine and variables" in narrow(again)
    monkeypatch.setenv("APP_COLOUR", "blue")
    place.unlink()
    changed = lab.call("replay", artifact=first)
    text = " ".join(changed.out.split())
    assert "environment variables have changed, and a script reads all of them" in text
    assert f"{place} is another one now, or is gone" in text
    compared = lab.call("diff", artifact=first, artifacts=[run_id(changed)]).out
    assert "read all environment variables: changed" in compared
    assert "os:" not in compared


def test_a_locked_run_is_repeated_by_its_lock(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    first = app.run("run,app", lock=str(lock))
    assert app.call("replay", artifact=run_id(first)).answer["return"] == 0
    with (app.repo / "script/get-tool/customize.py").open("a") as stream:
        stream.write("# edited\n")
    again = app.call("replay", artifact=run_id(first))
    refused(again, "lock-broken", "the script get-tool was edited: customize.py")
    assert "differs from then:" in again.out
    lock.unlink()
    assert app.call("replay", artifact=run_id(first)).answer["return"] == 0
    assert lock.exists()


def test_a_failed_run_is_repeated_too(lab: Lab) -> None:
    lab.script("a-b", run="exit 3")
    first = lab.run("a,b")
    refused(lab.call("replay", artifact=run_id(first)), "script-failed")


def test_secrets_must_be_given_again(app: Lab) -> None:
    first = app.run("run,app", env={"HF_TOKEN": "verysecret"})
    assert "verysecret" not in Path(first.answer["record"]).read_text()
    refused(
        app.call("replay", artifact=run_id(first)),
        "cannot-repeat",
        "give --env.HF_TOKEN again",
    )
    again = app.call("replay", artifact=run_id(first), env={"HF_TOKEN": "other"})
    assert again.env == {"RESULT": "safe 1.0"}


def test_wrong_records_are_refused(app: Lab, tmp_path: Path) -> None:
    refused(app.call("replay"), "bad-value", "cm replay script last")
    refused(app.call("replay", artifact="none"), "entry-not-found", 'no record "none"')
    app.run("run,app")
    app.run("run,app")
    refused(app.call("replay", artifact="20"), "entry-not-found", '"20" matches 2 runs')
    (tmp_path / "x.json").write_text("{}")
    refused(app.call("replay", artifact=str(tmp_path / "x.json")), "bad-value", "not the record")
    (tmp_path / "x.json").write_text("{")
    refused(
        app.call("replay", artifact=str(tmp_path / "x.json")),
        "bad-value",
        "x.json:1:2: not valid JSON",
    )


# ---------------------------------------------------------------- diff


def difference(lab: Lab, one: Result, other: Result) -> tuple[dict[str, Any], str]:
    result = lab.call("diff", artifact=run_id(one), artifacts=[run_id(other)])
    return result.answer["differences"], narrow(result)


def test_equal_runs_do_not_differ(app: Lab) -> None:
    app.run("run,app")
    one, other = app.run("run,app"), app.run("run,app")
    found, text = difference(app, one, other)
    assert found == {}
    assert "no difference except times and load" in text


def test_request_inputs_versions_and_results_differ(app: Lab) -> None:
    one = app.run("run,app")
    newer_tool(app)
    other = app.run("run,app", mode="fast")
    found, text = difference(app, one, other)
    assert found["request"] == {"--mode": ["(none)", "fast"]}
    assert found["steps"]["run-app > get-tool"]["version"] == ["1.0", "2.0"]
    assert found["steps"]["run-app"]["read MODE"] == ["(none)", "fast"]
    assert "    gave RESULT: safe 1.0 -> fast 2.0" in text
    data = app.call("diff", artifact=run_id(one), artifacts=[run_id(other)], json=True)
    assert json.loads(data.out) == found


def test_steps_in_one_run_only_and_failures(app: Lab) -> None:
    one = app.run("run,app")
    app.script("run-app", run="exit 1")
    other = app.run("run,app")
    found, text = difference(app, one, other)
    assert found["result"]["status"] == ["done", "failed"]
    assert found["steps"]["run-app > get-tool"] == {"step": ["done", "(none)"]}
    assert "  status: done -> failed" in text


def test_what_one_run_reused_is_reported_in_one_line(app: Lab) -> None:
    app.script("make-x", cache=True, deps=[{"tags": "get,tool"}])
    app.script("use-x", deps=[{"tags": "make,x"}])
    found, text = difference(app, app.run("use,x"), app.run("use,x"))
    assert found == {"cache": {"second": ["make-x"]}}
    assert "  only the second run reused: make-x" in text


def test_where_an_entry_lies_is_no_difference(lab: Lab) -> None:
    lab.script(
        "make-x",
        cache=True,
        new_env_keys=["X"],
        customize="import os\ndef preprocess(i):\n    i['env']['X'] = os.getcwd() + '/file'\n"
        "    return {'return': 0}\n",
    )
    lab.script("use-x", deps=[{"tags": "make,x"}], run='echo "$X"')
    one = lab.run("use,x")
    lab.call("delete", "cache", all=True, force=True)
    found, _ = difference(lab, one, lab.run("use,x"))
    assert found == {}


def test_the_real_commands(cm: Callable[..., Finished]) -> None:
    cm("run", "script", "--tags=detect,os", "--quiet").ok()
    again = cm("replay", "script", "last").ok().stdout
    assert "the same: repositories, scripts, machine and variables" in again
    runs = re.findall(r"repeating (\S+),", again)
    assert "no difference" in cm("diff", "script", runs[0], "last").ok().stdout
    assert "memory" in cm("doctor", "script").stdout
    # cmind itself refuses this one, as the documentation says.
    assert "automation was not specified" in cm("doctor").stderr + cm("doctor").stdout


def leave_figures(result: Result, value: float) -> None:
    """What a step of a benchmark leaves in its folder of a run."""
    folder = Path(result.answer["record"]).parent / "001-measure"
    folder.mkdir()
    entry = {"scenario": "Offline", "value": value, "unit": "samples/s", "validity": "VALID"}
    document = {"benchmark": "resnet50", "results": [entry]}
    (folder / "results.json").write_text(json.dumps(document), encoding="utf-8")


def test_figures_of_a_repeated_run_are_shown_beside_the_former_ones(
    lab: Lab, tmp_path: Path
) -> None:
    now = tmp_path / "now.json"
    lab.script("measure", run=f'cat {now} > "$CM_TMP_RUN_DIR/results.json"')

    def measured(value: int, validity: str) -> None:
        entry = {"scenario": "Offline", "value": value, "unit": "samples/s", "validity": validity}
        now.write_text(json.dumps({"benchmark": "resnet50", "results": [entry]}))

    measured(8050, "VALID")
    first = run_id(lab.run("measure"))
    measured(3098, "INVALID")
    again = lab.call("replay", artifact=first)
    figures = "8,050 samples/s -> 3,098 samples/s INVALID, x 0.385"
    assert f"figures then -> now:\n  resnet50 Offline: {figures}\n" in narrow(again)
    assert f"every step has the same versions and outputs as in {first}" in again.out
    assert "resnet50 Offline" in again.answer["differences"]["figures"]


def test_figures_come_first_and_steps_of_one_run_in_one_line(app: Lab) -> None:
    leave_figures(app.run("run,app"), 100.0)
    app.script("measure", deps=[{"tags": "get,tool"}, {"tags": "run,app"}])
    leave_figures(app.run("measure"), 250.0)
    shown = app.call("diff", artifact="last~1", artifacts=["last"])
    text = narrow(shown)
    first = "figures\n  resnet50 Offline: 100 samples/s -> 250 samples/s, x 2.5\n"
    assert text.index(first) < text.index("request")
    assert "  only in the second run (4): " in text
    pair = ["100 samples/s", "250 samples/s", "x 2.5"]
    assert shown.answer["differences"]["figures"] == {"resnet50 Offline": pair}


def test_folders_of_the_runs_are_no_difference(app: Lab) -> None:
    app.run("run,app")
    runs = [app.run("run,app"), app.run("run,app")]
    for result, quiet in zip(runs, ("--quiet", "--quiet=True"), strict=True):
        path = Path(result.answer["record"])
        record = json.loads(path.read_text("utf-8"))
        more = {"FOLDER": f"/runs/{run_id(result)}/001-x", "LINE": f"cm run script x {quiet}"}
        record["steps"][-1]["new_env"] |= more
        path.write_text(json.dumps(record), encoding="utf-8")
    assert difference(app, *runs)[0] == {}


def test_runs_are_listed(app: Lab) -> None:
    leave_figures(app.run("run,app"), 100.0)
    app.script("run-app", run="exit 1")
    failed = app.run("run,app")
    shown = app.call("show", "runs")
    text = narrow(shown)
    assert [line.split()[3] for line in text.splitlines() if line.startswith("20")] == [
        "failed",
        "done",
    ]
    assert "  resnet50 Offline 100 samples/s" in text
    assert f"  {Path(failed.answer['record']).parent}" in text
    (entry,) = app.call("show", "runs", artifact="failed", json=True).answer["list"]
    assert (entry["id"], entry["state"]) == (run_id(failed), "failed")
    assert "no run matches" in app.call("show", "runs", artifact="no-such").out
    refused(app.call("show", "runs", limit="many"), "bad-value", "--limit=50")


def test_runs_before_the_last_have_names(app: Lab) -> None:
    one = app.run("run,app")
    app.run("run,app")
    assert run_id(one) in app.call("log", artifact="last~1").out
    refused(app.call("log", artifact="last~2"), "entry-not-found", "cm show runs")
    refused(app.call("replay", artifact="last~2"), "entry-not-found", "cm show runs")


def test_diff_wants_two_records(app: Lab) -> None:
    refused(app.call("diff"), "bad-value", "cm diff script last~1 last")
    refused(app.call("diff", artifact="a", artifacts=["b"], jsn=1), "unknown-flag", "json")


# ---------------------------------------------------------------- lock


def test_a_lock_is_written_and_obeyed(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    first = app.run("run,app", lock=str(lock))
    assert f"locked: {lock} (2 scripts, 1 version)" in first.out
    data = json.loads(lock.read_text())
    assert set(data["scripts"]) == {"run-app", "get-tool"}
    assert data["repositories"] == {"lab": ""}
    newer_tool(app)
    planned = app.plan("run,app", lock=str(lock)).answer["plan"]["root"]["children"][0]
    assert planned["version"] == "1.0"
    before = lock.read_text()
    assert app.run("run,app", lock=str(lock)).env == {"RESULT": "safe 1.0"}
    assert lock.read_text() == before


def test_what_was_made_before_the_lock_is_reused(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    assert app.run("run,app", lock=str(lock)).status["get-tool"] == "cached"
    newer_tool(app)
    app.run("get,tool")
    locked = app.run("run,app", lock=str(lock))
    assert locked.env == {"RESULT": "safe 1.0"}
    assert locked.status["get-tool"] == "done"
    assert app.run("run,app", lock=str(lock)).status["get-tool"] == "cached"


def test_an_edited_script_breaks_the_lock(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    with (app.repo / "script/get-tool/customize.py").open("a") as stream:
        stream.write("# edited\n")
    locked = app.run("run,app", lock=str(lock))
    refused(locked, "lock-broken", "the script get-tool was edited: customize.py\n")
    assert f"remove {lock} and run again" in " ".join(locked.err.split())
    refused(app.plan("run,app", lock=str(lock)), "lock-broken", "get-tool was edited")
    lock.unlink()
    assert app.run("run,app", lock=str(lock)).answer["return"] == 0


def test_files_that_came_and_went_break_the_lock(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    folder = app.repo / "script/get-tool"
    (folder / "helper.py").write_text("")
    (folder / "README.md").write_text("what people read may change")
    (folder / "customize.py").rename(folder / "customise.py")
    wanted = "get-tool was edited: customize.py (gone), customise.py (new), helper.py (new) next:"
    broken = app.run("run,app", lock=str(lock))
    refused(broken, "lock-broken")
    assert wanted in " ".join(broken.err.split())


def test_an_edit_that_keeps_size_and_time_breaks_the_lock(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    path = app.repo / "script/get-tool/customize.py"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(path.read_text().replace("version", "vers1on"))
    os.utime(path, ns=times)
    refused(app.run("run,app", lock=str(lock)), "lock-broken", "get-tool was edited: customize.py")


def test_a_script_that_is_edited_during_a_locked_run_is_not_run(app: Lab, tmp_path: Path) -> None:
    late, mark = app.repo / "script/late-step/run.sh", tmp_path / "mark"
    app.script("late-step", run="true")
    app.script("edit-late", run=f'[ ! -e "{mark}" ] || echo "echo ran > {mark}" >> {late}')
    app.script("run-all", deps=[{"tags": "edit,late"}, {"tags": "late,step"}])
    lock = tmp_path / "all.lock"
    app.run("run,all", lock=str(lock))
    mark.write_text("edit it now")
    refused(app.run("run,all", lock=str(lock)), "lock-broken", "late-step was edited: run.sh")
    assert mark.read_text() == "edit it now"


@pytest.mark.parametrize("flags", [{}, {"jobs": "2"}])
def test_a_step_that_may_fail_may_not_be_edited(
    app: Lab, tmp_path: Path, flags: dict[str, str]
) -> None:
    late, mark = app.repo / "script/late-step/run.sh", tmp_path / "mark"
    app.script("late-step", run="true", cache=True)
    app.script("edit-late", run=f'[ ! -e "{mark}" ] || echo "echo ran > {mark}" >> {late}')
    wanted = {"tags": "late,step", "continue_on_error": True}
    app.script("run-all", deps=[{"tags": "edit,late"}, wanted])
    lock = tmp_path / "all.lock"
    app.run("run,all", lock=str(lock))
    mark.write_text("edit it now")
    again = app.run("run,all", lock=str(lock), **flags)
    refused(again, "lock-broken", "late-step was edited: run.sh")
    assert mark.read_text() == "edit it now"


def test_an_older_lock_knows_scripts_as_a_whole(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    data = json.loads(lock.read_text())
    del data["files"]
    lock.write_text(json.dumps(data))
    assert app.run("run,app", lock=str(lock)).answer["return"] == 0
    with (app.repo / "script/get-tool/customize.py").open("a") as stream:
        stream.write("# edited\n")
    refused(app.run("run,app", lock=str(lock)), "lock-broken", "the script get-tool was edited\n")


def test_another_commit_breaks_the_lock(app: Lab, tmp_path: Path) -> None:
    git = app.repo / ".git"
    git.mkdir()
    (git / "HEAD").write_text("1" * 40)
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    (git / "HEAD").write_text("2" * 40)
    wanted = "lab is at 222222222222, locked is 111111111111"
    refused(app.run("run,app", lock=str(lock)), "lock-broken", wanted)


def test_a_script_that_ignores_the_version_breaks_the_lock(app: Lab, tmp_path: Path) -> None:
    text = (app.repo / "script/get-tool/customize.py").read_text()
    text = text.replace("env.get('CM_VERSION') or ", "")
    app.script("get-tool", cache=True, new_env_keys=["TOOL_*"], customize=text)
    lock = tmp_path / "app.lock"
    app.run("run,app", lock=str(lock))
    newer_tool(app)
    refused(app.run("run,app", lock=str(lock)), "lock-broken", "get-tool is 2.0, locked is 1.0")


def test_a_version_that_comes_from_a_dependency_is_pinned_there(app: Lab, tmp_path: Path) -> None:
    app.script(
        "wrap-tool",
        cache=True,
        deps=[{"tags": "get,tool"}],
        customize="""
def preprocess(i):
    assert not i['env'].get('CM_VERSION'), 'the tool has versions, the wrapper has none'
    return {'return': 0, 'version': i['env']['TOOL_VERSION']}
""",
    )
    lock = tmp_path / "app.lock"
    app.run("wrap,tool", lock=str(lock))
    pins = {item["script"]: item["pin"] for item in json.loads(lock.read_text())["versions"]}
    assert pins == {"get-tool": True, "wrap-tool": False}
    newer_tool(app)
    locked = app.run("wrap,tool", lock=str(lock))
    assert locked.answer["version"] == "1.0"


FETCH = """
import hashlib, shutil
from cmbench.errors import Error
def preprocess(i):
    env = i['env']
    shutil.copy(env['CM_DOWNLOAD_URL'], 'file')
    digest = hashlib.sha256(open('file', 'rb').read()).hexdigest()
    if env.get('CM_DOWNLOAD_CHECKSUM') not in (None, digest):
        raise Error('checksum-mismatch', 'not the file that was wanted')
    env['CM_DOWNLOAD_DOWNLOADED_PATH'] = __import__('os').path.abspath('file')
    return {'return': 0}
"""


def test_downloads_are_pinned_by_their_content(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("one")
    lab.script(
        "download-it",
        cache=True,
        env={"CM_DOWNLOAD_URL": str(source)},
        new_env_keys=["CM_DOWNLOAD_DOWNLOADED_PATH"],
        customize=FETCH,
    )
    lab.script("use-it", deps=[{"tags": "download,it"}])
    lock = tmp_path / "it.lock"
    lab.run("use,it", lock=str(lock))
    assert json.loads(lock.read_text())["downloads"] == {
        str(source): hashlib.sha256(b"one").hexdigest()
    }
    lab.call("delete", "cache", all=True, force=True)
    assert lab.run("use,it", lock=str(lock)).answer["return"] == 0
    lab.call("delete", "cache", all=True, force=True)
    source.write_text("two")
    refused(lab.run("use,it", lock=str(lock)), "checksum-mismatch")
    assert lab.run("use,it").answer["return"] == 0


def test_what_cached_steps_were_made_with_is_locked_too(app: Lab, tmp_path: Path) -> None:
    app.script("make-x", cache=True, deps=[{"tags": "get,tool"}], new_env_keys=["X"])
    app.run("make,x")
    lock = tmp_path / "x.lock"
    again = app.run("make,x", lock=str(lock))
    assert again.status == {"make-x": "cached"}
    newer_tool(app)
    app.run("make,x", lock=str(lock))
    entries = {entry.script: entry.version for entry in app.store.entries()}
    assert entries["get-tool"] == "1.0"


def test_wrong_locks_are_refused(app: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "app.lock"
    lock.write_text("{")
    refused(app.run("run,app", lock=str(lock)), "bad-value", "is not a lock file")
    lock.write_text('{"format": 99}')
    refused(app.run("run,app", lock=str(lock)), "bad-value", "of this version")
    lock.write_text('{"format": 1, "versions": [{}], "repositories": {}}')
    refused(app.run("run,app", lock=str(lock)), "bad-value", "of this version")
    refused(app.run("run,app", lock=True), "bad-value", "--lock=FILE")
    refused(app.run("run,app", lock=str(tmp_path / "no/x")), "bad-value", "no such folder")
    lock.unlink()
    app.script("run-app", run="exit 1")
    app.run("run,app", lock=str(lock))
    assert not lock.exists()


def test_a_secret_variable_that_a_script_reads_does_not_stand_in_the_way(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record has no fingerprint of it to compare with."""
    monkeypatch.setenv("HF_TOKEN", "verysecret")
    lab.script("app-x", run="echo $HF_TOKEN")
    assert lab.call("replay", artifact=run_id(lab.run("app,x"))).answer["return"] == 0
