"""What a user is told when something goes wrong: what, in which step of which chain, what next."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Result


def refused(result: Result, code: str, *words: str) -> str:
    """Assert that a call failed with ``code`` and that its text holds all ``words``."""
    assert result.answer["return"] != 0
    assert result.answer["code"] == code
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err, result.err
    return result.err


@pytest.fixture
def tools(lab: Lab) -> Lab:
    lab.script(
        "get-tool",
        cache=True,
        input_mapping={"device": "DEVICE", "count": "COUNT", "fast": "FAST"},
        input_description={
            "device": {"desc": "where to run", "choices": ["cpu", "cuda"]},
            "count": {"desc": "how many", "type": "int"},
            "fast": {"desc": "hurry", "type": "bool"},
        },
        variations={"large": {}, "small.#": {}},
    )
    return lab


def test_unknown_flag(tools: Lab) -> None:
    refused(tools.run("get,tool", devise="cpu"), "unknown-flag", "--devise", '"device"')
    refused(tools.run("get,tool", versoin="1"), "unknown-flag", '"version"')
    refused(tools.run("get,tool", zzz="1"), "unknown-flag", "--help")


def test_a_refused_value_names_the_variation_that_means_it(lab: Lab) -> None:
    described = {"device": {"desc": "where to run", "choices": ["cpu", "cuda"]}}
    lab.script("get-tool", input_description=described, variations={"all-devices": {}})
    refused(lab.run("get,tool", device="all"), "bad-value", "or the variation _all-devices")
    assert "variation" not in refused(lab.run("get,tool", device="al"), "bad-value")


def test_bad_values(tools: Lab) -> None:
    refused(tools.run("get,tool", device="cdua"), "bad-value", "--device=cdua", '"cuda"')
    refused(tools.run("get,tool", count="many"), "bad-value", "--count=many", "number")
    refused(tools.run("get,tool", fast="perhaps"), "bad-value", "neither yes nor no")
    refused(tools.run("get,tool", env="X"), "bad-value", "--env.KEY=value")
    refused(tools.run("get,tool", adr={"python": "x"}), "bad-value", "--adr.python.KEY=value")
    refused(tools.run("get,tool", version=True), "bad-value", "--version=VALUE")


def test_two_inputs_that_contradict_each_other(lab: Lab) -> None:
    mapping = {"backend": "BACKEND", "framework": "BACKEND", "x": "X"}
    lab.script("get-tool", input_mapping=mapping, new_env_keys=["BACKEND"])
    refused(
        lab.run("get,tool", backend="one", framework="other"),
        "bad-value",
        "--backend=one and --framework=other contradict each other",
        "give one of them",
    )
    assert lab.run("get,tool", backend="one", framework="one", x="other").env["BACKEND"] == "one"
    assert lab.run("get,tool", backend=5, framework="5").env["BACKEND"] == "5"


def test_unknown_tag_and_unknown_variation(tools: Lab) -> None:
    refused(tools.run("get,tol"), "script-not-found", '"tol"', "--tags=get,tool?")
    lacking = '"_lage"', 'did you mean "_large"?', "it has: _large, _small.#"
    refused(tools.run("get,tool,_lage"), "variation-not-found", *lacking)
    refused(tools.run("get,tool,_smal.5"), "variation-not-found", 'did you mean "_small.5"?')
    refused(tools.run("get,tool,_small"), "variation-not-found", "_small")
    refused(tools.run(""), "bad-value", "no tags")
    refused(tools.call("run", artifact="get-tol"), "script-not-found", '"get-tool"')


def test_a_script_without_variations_names_the_scripts_that_may_have_it(lab: Lab) -> None:
    lab.script("run-log", "run,log")
    text = refused(lab.run("run,log,_openorca"), "variation-not-found", "then repeat")
    assert "it has none" not in text


def test_a_form_that_one_of_several_scripts_lacks(lab: Lab) -> None:
    lab.script("get-model-a", "get,model,a", variations={"big": {}, "tiny": {}, "big,tiny": {}})
    lab.script("get-model-b", "get,model,b", variations={"tiny": {}})
    lab.script("run-x", deps=[{"tags": "get,model", "update_tags_from_env": ["WHICH", "FORM"]}])
    flags = {"WHICH": "b", "FORM": "_big"}
    for verb in ("plan", "run"):
        text = refused(lab.call(verb, tags="run,x", env=flags), "variation-not-found")
        assert "the script get-model-b has no variation" in text
        assert "step:   run-x" in text
        assert "it has: _tiny\n" in text
        assert "scripts with _big: get-model-a\n" in text


def test_tags_that_exist_but_not_together(tools: Lab) -> None:
    tools.script("detect-os", tags="detect,os")
    refused(tools.run("get,os"), "script-not-found", "no script has all the tags", "get-tool")


def test_misspelt_keys_are_errors_in_our_repository_and_forgiven_elsewhere(lab: Lab) -> None:
    lab.script("get-x", dpes=[], variations={"a": {"groop": "g"}})
    text = refused(lab.call("run", tags="get,x", own=True), "bad-meta", "2 faults")
    assert 'dpes: unknown key, did you mean "deps"?' in text
    assert 'variations.a.groop: unknown key, did you mean "group"?' in text
    assert lab.run("get,x").answer["return"] == 0


def test_yaml_that_does_not_parse_names_file_line_and_column(lab: Lab) -> None:
    path = lab.script("get-x")
    (path / "meta.yaml").write_text("alias: get-x\nuid: '1\ntags: [get, x]\n")
    text = refused(lab.call("run", artifact="get-x"), "bad-meta", "meta.yaml:")
    assert "not valid YAML" in text


def test_a_failing_hook_reports_its_own_line_and_the_chain(lab: Lab) -> None:
    lab.script("c-bad", customize="def preprocess(i):\n    return {}['gone']\n")
    lab.script("p-mid", deps=[{"tags": "c,bad"}])
    lab.script("p-top", deps=[{"tags": "p,mid"}])
    text = refused(lab.run("p,top"), "customize-crashed", "KeyError", "p-top > p-mid > c-bad")
    assert "customize.py:2 in preprocess" in text


def test_hooks_that_cannot_be_loaded_or_answer_nonsense(lab: Lab) -> None:
    lab.script("c-syntax", customize="def preprocess(i)\n")
    refused(lab.run("c,syntax"), "customize-crashed", "SyntaxError", "customize.py:1")
    lab.script("c-import", customize="import no_such_module_anywhere\n")
    refused(lab.run("c,import"), "customize-crashed", "no_such_module_anywhere")
    lab.script("c-exit", customize="import sys\ndef preprocess(i):\n    sys.exit(3)\n")
    refused(lab.run("c,exit"), "customize-crashed", "SystemExit")
    lab.script("c-none", customize="def preprocess(i):\n    pass\n")
    refused(lab.run("c,none"), "bad-customize", "{'return': 0}")
    lab.script(
        "c-error",
        customize="""
def preprocess(i):
    return {'return': 7, 'error': 'no licence', 'hint': 'buy one'}
""",
    )
    failed = lab.run("c,error")
    refused(failed, "customize-failed", "no licence", "buy one")
    assert failed.answer["return"] == 7


def test_a_failing_native_script_shows_its_last_lines_and_how_to_repeat(lab: Lab) -> None:
    lab.script(
        "c-bad",
        cache=True,
        input_mapping={"word": "WORD"},
        run='for n in $(seq 40); do echo "line $n $WORD"; done; exit 3',
    )
    failed = lab.run("c,bad", word="it's")
    text = refused(failed, "script-failed", "exited with status 3", "line 40 it's")
    assert "line 20" not in text
    assert failed.answer["return"] == 2
    assert "line 1 it's" in Path(failed.answer["log"]).read_text()
    assert lab.store.entries() == []
    assert list((lab.home / "cmbench/v1/store").iterdir()) == []
    repeat = next((lab.home / "cmbench/runs").rglob("c-bad.sh"))
    os.makedirs(repeat.read_text().splitlines()[1].removeprefix("cd "), exist_ok=True)
    again = subprocess.run(["bash", repeat], capture_output=True, text=True)
    assert again.returncode == 3
    assert "line 40 it's" in again.stdout


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("error: externally-managed-environment", "install python-venv"),
        ("OSError: [Errno 28] No space left on device", "CM_REPOS"),
        ("fatal: Could not resolve host: example.org", "proxy"),
        ("x.c:1:10: fatal error: Python.h: No such file or directory", "python3-dev"),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found", "older version"),
        ("asked for CUDAExecutionProvider, but the session uses C", "--device=cpu"),
    ],
)
def test_known_causes(lab: Lab, output: str, remedy: str) -> None:
    lab.script(
        "c-bad", files={"text": output}, run='cat "$CM_TMP_CURRENT_SCRIPT_PATH/text"; exit 1'
    )
    refused(lab.run("c,bad"), "script-failed", remedy)


def test_the_cause_is_found_far_above_the_last_lines(lab: Lab) -> None:
    count = "for n in $(seq 40); do echo line $n; done; exit 3"
    lab.script("c-bad", run=f'echo "Bus error (core dumped)"; {count}')
    text = refused(lab.run("c,bad"), "script-failed", "--shm-size", "repeat this step", "line 40")
    assert "cause:\n    Bus error (core dumped)\n    line 26\n" in text
    lab.script("c-bad", run=f'echo "version https://git-lfs.github.com/spec/v1"; {count}')
    refused(lab.run("c,bad"), "script-failed", "line of its log", "git lfs pull", "repeat this")
    lab.script("c-bad", customize="import no_such_module\n")
    assert "PACKAGE" not in refused(lab.run("c,bad"), "customize-crashed")
    lab.script("c-bad", customize="def preprocess(i):\n    raise MemoryError('no more')\n")
    refused(lab.run("c,bad"), "customize-crashed", "not enough memory")


def test_every_failure_leaves_a_record(lab: Lab) -> None:
    lab.script("c-bad", run="exit 1")
    lab.script("p-top", deps=[{"tags": "c,bad"}])
    failed = lab.run("p,top")
    record = failed.record
    assert record["status"] == "failed"
    assert record["error"]["code"] == "script-failed"
    assert record["error"]["chain"] == ["p-top", "c-bad"]
    assert [step["status"] for step in record["steps"]] == ["failed", "failed"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True
    )
    if mount.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def test_a_full_disk_is_one_clear_error_and_nothing_half_made(lab: Lab, small_disk: Path) -> None:
    lab.script("get-big", cache=True, run="dd if=/dev/zero of=big bs=1k count=1500")
    lab.script(
        "get-py",
        cache=True,
        customize="""
def preprocess(i):
    with open('big', 'wb') as f:
        f.write(b'0' * 1500000)
    return {'return': 0}
""",
    )
    lab.script("get-small", cache=True, run="echo 1 > small")
    lab.home = small_disk
    refused(lab.run("get,big"), "script-failed", "No space left on device", "CM_REPOS")
    refused(lab.run("get,py"), "no-space", "CM_REPOS")
    assert lab.run("get,small").answer["return"] == 0
    assert len(lab.store.entries()) == 1
    filler = small_disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True)
    refused(lab.run("get,small", new=True), "no-space", "CM_REPOS")
    filler.unlink()
    assert lab.run("get,small").answer["cached"]


def test_a_read_only_cache_still_answers_or_says_so(lab: Lab) -> None:
    lab.script("get-x", cache=True, run="true")
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    lab.run("get,x")
    (lab.home / "cmbench").chmod(0o500)
    refused(lab.run("get,x"), "not-writable", "CM_REPOS")


def test_a_missing_bash_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.script("c-run", run="true")
    monkeypatch.setenv("PATH", str(lab.home))
    refused(lab.run("c,run"), "cannot-start", "bash")


def test_an_error_inside_the_engine_is_no_traceback(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.script("c-any")
    monkeypatch.setattr("cmbench.run.step_work.exports", lambda frame: 1 / 0)
    refused(lab.run("c,any"), "internal", "--debug")
    failed = lab.run("c,any", debug=True)
    assert failed.answer["code"] == "internal"
    assert "Traceback" in failed.err


def test_removing_the_home_underneath(lab: Lab) -> None:
    lab.script("get-x", cache=True, run="true")
    lab.run("get,x")
    shutil.rmtree(lab.home)
    assert lab.run("get,x").answer["cached"] is False


def test_versions_outside_the_bounds_are_refused(lab: Lab) -> None:
    body = "def preprocess(i):\n    return {'return': 0, 'version': '4.0'}\n"
    lab.script("get-tool", cache=True, customize=body)
    lab.script("detect-x", new_env_keys=["X"], env={"X": "1"})
    assert lab.run("get,tool", version_min="3", version_max="4.1").answer["version"] == "4.0"
    refused(lab.run("get,tool", version_min="5"), "version-not-found", "4.0", ">= 5")
    refused(lab.run("get,tool", version_max="3.9"), "version-not-found", "<= 3.9")
    refused(lab.run("detect,x", version_min="1"), "version-not-found", "reports no version")
    assert lab.run("get,tool", version_min="5").answer["return"] == 16


def test_one_word_that_many_scripts_carry(lab: Lab) -> None:
    for name in ("get-a", "get-b"):
        lab.script(name)
    refused(lab.run("get"), "ambiguous", "2 scripts", "get-a, get-b", "cm find script --tags=get")
    assert lab.run("get,a").answer["return"] == 0


@pytest.mark.parametrize("value", ["0", "-4", "nan", "inf", "1e400", "2000"])
def test_numbers_out_of_bounds_are_refused_at_once(lab: Lab, value: str) -> None:
    spec = {"n": {"desc": "n", "type": "float", "min": 1, "max": 1000}}
    lab.script("get-n", input_mapping={"n": "N"}, input_description=spec)
    refused(lab.run("get,n", n=value), "bad-value", f"--n={value}", "at least 1 and at most 1000")


def test_a_broken_meta_spoils_only_its_own_script(lab: Lab) -> None:
    lab.script("get-good", tags="get,good", new_env_keys=["A"], env={"A": "1"})
    (lab.script("get-bytes") / "meta.yaml").write_bytes(b"alias: x\xff\n")
    lab.script("get-odd", deps={"tags": "x"})
    assert lab.run("get,good").env == {"A": "1"}
    assert "get-good" in lab.call("search").out
    refused(lab.call("run", artifact="get-bytes"), "bad-meta", "UTF-8")
    refused(lab.call("run", artifact="get-odd"), "bad-meta", "deps")


def test_debug_shows_the_traceback_and_the_log_always_holds_it(lab: Lab) -> None:
    lab.script("c-bad", customize="def preprocess(i):\n    return 1 / 0\n")
    failed = lab.run("c,bad", debug=True)
    assert "Traceback" in failed.err
    assert "ZeroDivisionError" in Path(lab.run("c,bad").answer["log"]).read_text()


def test_a_known_cause_leaves_the_way_to_repeat_the_step(lab: Lab) -> None:
    header = "echo 'foo.c:12:10: fatal error: zlib.h: No such file or directory' >&2\nexit 1\n"
    lab.script("build-x", run=header)
    text = refused(lab.run("build,x"), "script-failed", "the header named above is missing")
    assert "repeat this step alone:\n          bash " in text


def test_a_program_reports_what_to_do_next_by_itself(lab: Lab) -> None:
    lab.script(
        "build-x", run="echo 'zlib.h: No such file or directory'\necho 'next: eat'\nexit 1\n"
    )
    text = refused(lab.run("build,x"), "script-failed", "zlib.h: No such file")
    assert "  next:   eat\n          repeat this step alone:\n" in text
    assert "next: eat" not in text


def test_a_cause_is_reported_as_it_was_printed(lab: Lab) -> None:
    line = "word " * 40 + "end"
    lab.script("c-bad", run=f"echo {line}\nexit 1\n")
    assert f"    {line}\n" in refused(lab.run("c,bad"), "script-failed", "    word word")


def test_an_update_for_a_name_that_no_script_has_is_refused(lab: Lab) -> None:
    lab.script("c-leaf", cache=True)
    lab.script("p-top", deps=[{"tags": "c,leaf", "names": ["leaf"]}])
    for verb in ("plan", "run"):
        for flag in ("ad", "adr"):
            asked = {flag: {"laef": {"version": "1"}}}
            words = f"--{flag}.laef", 'did you mean "leaf"?'
            refused(lab.call(verb, tags="p,top", **asked), "unknown-flag", *words)
    other = lab.run("c,leaf", adr={"other": {"version": "1"}})
    refused(other, "unknown-flag", "there are: leaf")


def test_an_update_that_reaches_nothing_is_reported(lab: Lab) -> None:
    lab.script("c-leaf", cache=True)
    lab.script("p-top", deps=[{"tags": "c,leaf", "names": ["leaf"]}])
    lab.script("p-side", deps=[{"tags": "c,leaf", "names": ["leaf2"]}])
    for flag in ("ad", "adr"):
        for verb in ("plan", "run", "run"):
            told = lab.call(verb, tags="p,top", **{flag: {"leaf2": {"version": "1"}}})
            assert told.answer["return"] == 0
            text = f'warning: --{flag}.leaf2 reached no dependency; did you mean "leaf"?'
            assert text in told.err
            right = lab.call(verb, tags="p,top", **{flag: {"leaf": {"x": "1"}}})
            assert "warning" not in right.err


def test_a_plan_does_not_doubt_a_name_that_a_later_step_may_have(lab: Lab) -> None:
    customize = "def preprocess(i):\n    i['env']['CM_KIND'] = 'leaf'\n    return {'return': 0}\n"
    lab.script("c-leaf", deps=[{"tags": "get,end", "names": ["end"]}])
    lab.script("get-end")
    entry = {"tags": "c", "update_tags_from_env": ["CM_KIND"]}
    lab.script("p-top", customize=customize, posthook_deps=[entry], new_env_keys=["CM_KIND"])
    told = lab.plan("p,top", adr={"end": {"version": "1"}})
    assert told.answer["return"] == 0
    assert "warning" not in told.err


@pytest.mark.parametrize("flag", ["ad", "adr"])
def test_a_misspelt_registered_name_makes_nothing_new(flag: str, lab: Lab) -> None:
    lab.script("get-tool", cache=True)
    lab.script("p-top", deps=[{"tags": "get,tool", "names": ["tool"]}])
    assert lab.run("p,top", **{flag: {"tool": {"name": "first"}}}).answer["return"] == 0
    lab.run("get,tool", name="mlperf")
    asked = {flag: {"tool": {"name": "mlpref"}}}
    for verb in ("plan", "run"):
        text = refused(lab.call(verb, tags="p,top", **asked), "not-registered")
        assert 'no get-tool is registered under the name "mlpref"' in text
        assert "registered: first, mlperf\n" in text
        assert 'did you mean "mlperf"?' in text
        assert "cm run script --tags=get,tool --name=mlpref\n" in text
        assert "p-top > get-tool" in text
    # What is no misspelling, what is registered by its own command, and what a script names.
    assert lab.run("p,top", **{flag: {"tool": {"name": "other"}}}).answer["return"] == 0
    assert lab.run("get,tool", name="mlpref").answer["return"] == 0
    assert lab.run("p,top", **asked).status["get-tool"] == "cached"
    lab.script("p-top", deps=[{"tags": "get,tool", "names": ["tool"], "name": "mlperff"}])
    assert lab.run("p,top").status["get-tool"] == "done"


def test_calls_that_make_no_sense(lab: Lab) -> None:
    lab.script("get-x")
    assert lab.call("run", tags="get,x", out="xml").answer["code"] == "bad-value"
    assert lab.call("run", tags=True).answer["code"] == "bad-value"


def test_a_reference_that_nothing_sets_fails_before_the_step(lab: Lab) -> None:
    lab.script("make-x", run='echo "made of $SAMPLES"')
    lab.script("use-x", deps=[{"tags": "make,x", "env": {"SAMPLES": "<<<FOLDER>>>/input-0.npy"}}])
    refused(lab.run("use,x"), "missing-input", "make-x needs SAMPLES", "<<<FOLDER>>>/input-0.npy")
    assert lab.run("use,x", env={"FOLDER": "/data"}).answer["return"] == 0
    lab.script("make-x", cache=True, input_mapping={"samples": "SAMPLES"})
    lab.script("use-x", deps=[{"tags": "make,x", "samples": "<<<FOLDER>>>/input-0.npy"}])
    assert lab.run("use,x", env={"FOLDER": "/data"}).answer["return"] == 0
    assert lab.run("make,x").status == {"make-x": "cached"}
    refused(lab.run("use,x"), "missing-input", "make-x needs SAMPLES", "<<<FOLDER>>>/input-0.npy")
