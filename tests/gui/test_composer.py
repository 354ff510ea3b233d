"""The form of a script, its plan, and what the planner says cannot be combined."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cmbench import api
from cmbench.errors import Error
from cmbench.lib import nvidia
from cmbench_gui.command import choice_of
from cmbench_gui.composer import machine, views
from cmbench_gui.composer.fields import form_of
from cmbench_gui.composer.planner import PlannerProcess
from cmbench_gui.server import create_app
from cmbench_gui.site import Site
from support import ROOT

BENCHMARK = "/script/run-mlperf-inference-app"
SCRIPTS = sorted(path.parent.name for path in ROOT.glob("script/*/meta.yaml"))


@pytest.fixture(autouse=True)
def planners_end(unauthenticated: TestClient) -> object:
    yield
    planner = getattr(unauthenticated.app.state, "planner", None)  # type: ignore[attr-defined]
    if planner is not None:
        planner.close()


@pytest.mark.parametrize("alias", SCRIPTS)
def test_each_script_has_a_form_that_its_link_fills_in(
    client: TestClient, site: Site, alias: str
) -> None:
    script = api.show(site.workspace(), name=alias)
    plain = choice_of(script, [])
    fields = [field for part in form_of(script, plain) for field in part.fields]
    # Each control with a value of its own: all of it comes back, and nothing else.
    given = [(f.name, f.options[-1] if f.options else "7") for f in fields if f.name != "more"]
    answer = client.get(f"/script/{alias}", params=given)
    assert answer.status_code == 200
    choice = choice_of(script, given)
    again = form_of(script, choice)
    held = {(f.name, f.value) for part in again for f in part.fields if f.value}
    assert {pair for pair in given if pair[0] != "tags"} <= held
    chosen = {value.removeprefix("_") for name, value in held if name == "tags"}
    assert chosen == {v for v in choice.variations if v in script.variations and "," not in v}


def test_the_command_follows_the_choices_and_says_what_is_wrong(client: TestClient) -> None:
    told = client.get(f"{BENCHMARK}/command", params={"tags": "_tiny", "device": "cpu"}).json()
    assert told["forms"]["bash"].endswith("_tiny \\\n  --device=cpu")
    assert told["forms"]["container"].startswith("cm docker script")
    assert told["link"] == f"{BENCHMARK}?tags=_tiny&device=cpu"
    assert not any(told["problems"].values())
    told = client.get(f"{BENCHMARK}/command", params={"threads": "many", "tags": "_no"}).json()
    assert "not a number" in told["problems"]["threads"]
    assert told["unknown"] == ["_no"]


def test_the_plan_stands_beside_it_or_says_why_there_is_none(client: TestClient) -> None:
    told = client.get(f"{BENCHMARK}/plan", params={"tags": "_tiny"})
    assert told.status_code == 200
    for word in ("app-mlperf-inference", "Download", "Licences", "never run here"):
        assert word in told.text
    told = client.get(f"{BENCHMARK}/plan", params={"tags": "_short,_full"})
    assert "exclude each other" in told.text


def test_what_cannot_be_combined_is_told_by_the_planner(client: TestClient) -> None:
    query = {"tags": "_tiny,_short", "field": "device"}
    told = client.get(f"{BENCHMARK}/check", params=query).json()
    assert told["now"] == ""
    # What the planner itself says of this machine, and what the script says of its inputs.
    assert "onnxruntime does not compute so here" in told["refused"]["inf1"]
    of_devices = {each: why for each, why in told["refused"].items() if "GPU" not in why}
    assert all(f"--device={each}" in why for each, why in of_devices.items()), of_devices
    # A choice that is refused as it is blames no other value for the same.
    query = {"backend": "nope", "field": "scenario"}
    told = client.get(f"{BENCHMARK}/check", params=query).json()
    assert "nope" in told["now"]
    assert told["refused"] == {}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/script/nothing-like-it", 404),
        ("/script/%2e%2e%2fx", 404),
        (f"{BENCHMARK}/check?field=none", 400),
        (f"{BENCHMARK}?model=" + "x" * 9000, 400),
        (f"{BENCHMARK}?more=no%20flag", 400),
        ("/explain?command=rm+-rf", 400),
    ],
)
def test_a_crafted_address_is_one_clear_message(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert 'role="alert"' in answer.text or "This is not possible" in answer.text


def test_values_of_a_link_stay_text(client: TestClient) -> None:
    value = "\"><img src=x onerror=alert(1)></script><script>'"
    for path in (BENCHMARK, f"{BENCHMARK}/plan", f"{BENCHMARK}/command"):
        text = client.get(path, params={"hw_name": value, "tags": f"_{value}"}).text
        assert "<img" not in text or path.endswith("/command")
    assert client.get(f"{BENCHMARK}/command").headers["content-type"] == "application/json"
    text = client.get("/explain", params={"command": f"cm run script --tags=x '{value}"}).text
    assert "<img" not in text


def test_a_pasted_command_is_explained_and_opens_in_the_form(client: TestClient) -> None:
    command = "cm run script --tags=run-mlperf,inference,_tiny --device=cpu --quiet"
    for path in ("/explain?command=", "/?words="):
        answer = client.get(path + command.replace(" ", "+"), follow_redirects=True)
        assert f"{BENCHMARK}?tags=_tiny&amp;device=cpu&amp;quiet=yes" in answer.text
        assert "no progress lines" in answer.text


def test_a_planner_that_dies_is_started_again(site: Site) -> None:
    planner = PlannerProcess(site.home, site.repositories, site.folder)
    try:
        first = planner.plan({"tags": "detect,os"})
        assert first["root"]["script"] == "detect-os"
        process = planner._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert planner.plan({"tags": "detect,os"})["root"]["script"] == "detect-os"
        with pytest.raises(Error) as told:
            planner.plan({"tags": "detect,os", "nonsense": "1"})
        assert told.value.code == "unknown-flag"
    finally:
        planner.close()


def test_planning_leaves_the_servers_folder_and_output_alone(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = os.getcwd()
    planner = PlannerProcess(site.home, site.repositories, str(tmp_path))
    try:
        planner.plan({"tags": "run-mlperf,inference,_tiny"})
    finally:
        planner.close()
    assert os.getcwd() == before
    assert capfd.readouterr().out == ""


def test_the_form_tells_of_this_machine_and_chooses_its_gpu(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = nvidia.NvidiaGpu(0, "GPU-0", "00000000:01:00.0", {"name": "NVIDIA L4"})
    driver = nvidia.Driver("535.1", "12.2", (gpu, gpu))
    monkeypatch.setattr(nvidia, "signs", lambda: ("/dev/nvidia0",))
    monkeypatch.setattr(nvidia, "read", lambda: driver)
    monkeypatch.setattr(machine, "this_machine", machine.this_machine.__wrapped__)
    monkeypatch.setattr(views, "this_machine", machine.this_machine)
    answer = client.get(BENCHMARK)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{BENCHMARK}?device=cuda")
    assert "2 x NVIDIA L4" in client.get(f"{BENCHMARK}?device=cuda").text
    # What somebody has chosen stays, and a script without devices is none of its business.
    for path in (f"{BENCHMARK}?device=cpu", f"{BENCHMARK}?tags=_tiny", "/script/detect-os"):
        assert client.get(path).status_code == 200
    driver = nvidia.Driver(problem="its driver is not loaded")
    answer = client.get(BENCHMARK)
    assert answer.status_code == 200
    assert "a GPU of NVIDIA that cannot be used: its driver is not loaded" in answer.text
    monkeypatch.setattr(nvidia, "signs", lambda: ())
    assert "no accelerator was found" in client.get(BENCHMARK).text


def meta(folder: Path, text: str, uid: int = 0xAA) -> None:
    """A script with that meta, in the repository that is three folders above."""
    folder.mkdir(parents=True)
    head = f"automation_alias: script\nautomation_uid: 5b4e0237da074764\nuid: {uid:016x}\n"
    (folder / "meta.yaml").write_text(head + text)
    cmr = folder.parents[1] / "cmr.yaml"
    cmr.write_text("alias: some@other\nuid: 00112233445566ab\n")


@pytest.fixture
def beside(site: Site, tmp_path: Path) -> Iterator[TestClient]:
    """A client of the pages of ours and of another repository, ``tmp_path / "other"``."""
    both = replace(site, repositories=(str(ROOT), str(tmp_path / "other")))
    with TestClient(create_app(both), f"http://127.0.0.1:{site.port}") as client:
        client.get(f"/enter/{site.key.hex()}")
        yield client


def test_each_script_is_listed_with_an_address_of_its_own(
    beside: TestClient, tmp_path: Path
) -> None:
    text = "alias: detect-os\ntags: [detect, os]\nname: Another one\n"
    meta(tmp_path / "other" / "script" / "detect-os", text)
    links = re.findall(r'href="(/script/[^"?]*detect-os)"', beside.get("/").text)
    assert sorted(links) == ["/script/cmbench:detect-os", "/script/some@other:detect-os"]
    told = beside.get("/script/some@other:detect-os").text
    assert "Another one" in told
    assert "cm run script some@other:detect-os" in told
    told = beside.get("/script/cmbench:detect-os").text
    assert "Another one" not in told
    assert "cm run script --tags=detect" in told


ODD = ("..", ".", "-x", "a:b", "a,b", "a b", "@f", "%2e", "a?b#c", "é", "<b>")


def test_a_script_with_an_odd_name_has_a_page(beside: TestClient, tmp_path: Path) -> None:
    for at, alias in enumerate(ODD, 1):
        text = f"alias: {json.dumps(alias)}\ntags: [is, odd{at}x]\nname: odd {at}x\n"
        meta(tmp_path / "other" / "script" / f"s{at}", text, at)
    first = beside.get("/").text
    for at, alias in enumerate(ODD, 1):
        [link] = re.findall(rf'href="([^"]*)"><b>odd {at}x<', first)
        told = beside.get(link)
        assert f"<h1>odd {at}x</h1>" in told.text, alias
        assert f"--tags=is,odd{at}x" in told.text, alias


def test_what_a_meta_says_stays_text_that_is_seen(beside: TestClient, tmp_path: Path) -> None:
    bad = '"><script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}b\0\x1b[31m'
    word = json.dumps(bad)
    meta(
        tmp_path / "other" / "script" / "bad",
        f"alias: bad\ntags: [is, bad]\nname: {word}\ninput_mapping: {{good: CM_G, {word}: CM_B}}\n"
        f"input_description: {{good: {{desc: {word}, choices: [{word}], default: {word}}}}}\n"
        f"variations: {{{word}: {{group: {word}}}, b: {{}}}}\n",
    )
    for path in ("/", "/script/bad", "/explain?command=cm+run+script+--tags=is,bad,_b+--good=1"):
        told = beside.get(path).text
        assert "<script>alert" not in told, path
        assert not {"\0", "\x1b", "\u202e"} & {*told}, path
        assert "\N{REPLACEMENT CHARACTER}" in told, path


def test_the_home_page_groups_scripts_by_task_the_benchmarks_first(client: TestClient) -> None:
    text = client.get("/").text
    titles = re.findall(r'<h2 id="task-\d+">([^<]+)</h2>', text)
    assert titles[0] == "Run a benchmark"
    assert {"Models", "Data sets", "Prepare and check a submission"} <= {*titles}
    assert len(set(titles)) == len(titles)
    first = text[text.index('id="task-1"') : text.index('id="task-2"')]
    assert "run-mlperf" in first
    assert "get,dataset" not in first
    assert 'id="task-' not in client.get("/?words=bert").text, "a search has an order of its own"
