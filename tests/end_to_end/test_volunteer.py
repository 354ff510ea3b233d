"""A volunteer's first hour: by the pages alone, then with a server of the crowd.

The tests share a home, which is clean at first: what the pages install is there for the rest.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from browser_lab import Watched, browser
from support import HANG_S, ROOT, Home

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]
TINY = "--tags=crowd,benchmark,_tiny"
# In the Python of the tests, which has the packages of a benchmark, and beside other tests.
SHORT = (f"--python={sys.executable}", "--max_wait=0", "--quiet")
WANTED = {"benchmark": "resnet50", "scenario": "Offline", "backend": "onnxruntime", "style": "test"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("volunteer"))
    made.register(ROOT)
    yield made
    shutil.rmtree(made.path)


@pytest.fixture
def keeper(tmp_path: Path) -> Home:
    home = Home(tmp_path / "keeper")
    home.path.mkdir()
    home.register(ROOT)
    return home


@pytest.fixture
def url(keeper: Home) -> Iterator[str]:
    """The address of a server that publishes what passes its checks."""
    with keeper.serving("serve", "results", "--port=0", "--publish=checked") as address:
        yield address


def settled(url: str, run: str) -> dict[str, Any]:
    end = time.monotonic() + HANG_S
    while True:
        told: dict[str, Any] = requests.get(f"{url}/api/v1/runs/{run}", timeout=HANG_S).json()
        if told["state"] not in ("queued", "checking"):
            return told
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_tiny_benchmark_from_the_form_to_the_explorer(
    home: Home,
) -> None:
    words = ("gui", "script", "--tags=run-mlperf,inference,_tiny", "--no_browser", "--port=0")
    with home.serving(*words) as address, browser() as chromium:
        watched = Watched(chromium, address)
        page = watched.page
        page.set_default_timeout(1000 * HANG_S)
        page.wait_for_selector("form[data-settled]", state="attached")
        page.select_option("[name=backend]", "onnxruntime")
        page.click("summary:has-text('Speed')")
        page.fill("[name=min_duration]", "1000")
        page.click("summary:has-text('What is measured')")
        page.fill("[name=max_wait]", "0")
        page.click("summary:has-text('Packages and data')")
        page.fill("[name=python]", sys.executable)
        page.wait_for_selector("#command:has-text('--min_duration=1000')")
        page.wait_for_selector("#command:has-text('--max_wait=0')")
        page.wait_for_selector("#command:has-text('--python=')")
        assert "--backend=onnxruntime" in page.inner_text("#command")
        page.click("#run")
        page.wait_for_selector("#steps:has-text('app-mlperf-inference')")
        page.wait_for_selector("#again")
        assert page.inner_text("#status") == "done"
        assert "resnet50" in page.inner_text("#output")

        page.click("#results")
        page.wait_for_url("**/results?*")
        kept = json.loads(home.cm("find", "results", "--json").ok().stdout)
        uid = kept["list"][0]["uid"]
        page.click(f"main a[href='/results/{uid}']")
        page.wait_for_url(f"**/results/{uid}")
        shown = page.inner_text("main")
        assert "not verified by MLCommons" in shown
        assert "Offline" in shown
        watched.close()


def test_leased_work_from_the_list_to_the_table_and_back(
    home: Home, keeper: Home, url: str, tmp_path: Path
) -> None:
    (tmp_path / "work.json").write_text(json.dumps([WANTED]), encoding="utf-8")
    keeper.cm("review", "results", f"--want={tmp_path / 'work.json'}").ok()
    assert "resnet50" in home.cm("lease", "crowd", f"--server={url}", "--list").ok().stdout
    lease = json.loads(home.cm("lease", "crowd", f"--server={url}", "--json").ok().stdout)
    again = json.loads(home.cm("lease", "crowd", f"--server={url}", "--json").ok().stdout)
    assert lease["id"] == again["id"], "after a crash it is the same one"
    unit = f"--work_unit={lease['id']}"

    planned = home.cm("plan", "script", TINY, "--model=resnet50", "--quiet").ok().stdout
    assert "run-mlperf-inference-app" in planned
    assert list((home.cm_repos / "cmbench").rglob("*.zip")) == [], "nothing was packed or sent"
    short = ("--test_query_count=64", *SHORT)
    done = home.cm("run", "script", TINY, unit, *short).ok()
    assert "Nothing was sent" in done.stdout
    found = (home.path / "user home").rglob("mlperf-inference-results/**/results.json")
    results = max(found, key=lambda path: path.stat().st_mtime)
    assert json.loads(results.read_text())["seed"] == int(lease["seed"])

    wish = ("last", "--consent=3", unit)
    shown = home.cm("show", "crowd", *wish).ok().stdout
    assert f"work_unit                     {lease['id']}".split() in [
        line.split() for line in shown.splitlines()
    ]
    sent = json.loads(
        home.cm("upload", "crowd", *wish, f"--server={url}", "--yes", "--json").ok().stdout
    )
    told = settled(url, sent["id"])
    assert (told["state"], told["tier"]) == ("published", "checked"), told
    said = {each["words"] for each in told["checks"]}
    assert {"the seeds are those of its work unit", "its log was not sent before"} <= said
    assert "it is what its work unit asks for, within its time" in said
    sent = json.loads(
        home.cm("upload", "crowd", *wish, f"--server={url}", "--yes", "--json").ok().stdout
    )
    assert sent["id"] == told["id"], "sent again, it is the same one"
    assert told["id"] in home.cm("show", "crowd").ok().stdout
    assert told["figure"] > 0
    assert "resnet50" in requests.get(f"{url}/results", timeout=HANG_S).text

    home.cm("withdraw", "crowd", "last").ok()
    assert requests.get(f"{url}/api/v1/runs/{told['id']}", timeout=HANG_S).status_code == 410
    kept = keeper.cm_repos / "cmbench" / "crowd"
    assert [path.name for path in kept.rglob("*") if path.is_file()] == ["server.lock"]
    assert "resnet50 Offline" not in keeper.cm("find", "results").stdout
