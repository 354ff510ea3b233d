"""The pages in a real browser: by mouse and by keyboard alone, in light and dark, on each width."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser_lab import Watched, browser, tab_to
from cmbench_gui.access import entrance
from cmbench_gui.jobs import control
from cmbench_gui.server import create_app, listening
from cmbench_gui.site import Site
from support import wait_for

BENCHMARK = "/script/run-mlperf-inference-app"
SETTLED = "form[data-settled]"
PAGES = {
    "/": "main",
    f"{BENCHMARK}?tags=_tiny,_short&threads=many": SETTLED,
    "/explain?command=cm+run+script+--tags=detect,os,_x+--quiet": ".words",
    "/jobs": ".jobs",
    "/results": "main",
    "/jobs/{run}": "#job[data-ended]",
    "/nothing": ".problem",
}
WIDTHS = (390, 1280, 1920)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def served(lab_site: Site) -> Iterator[Site]:
    """The lab's home, served by a real server."""
    import uvicorn

    listener = listening("127.0.0.1", 0)
    site = replace(lab_site, port=listener.getsockname()[1])
    app = create_app(site)
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield site
    server.should_exit = True
    thread.join()
    if hasattr(app.state, "planner"):
        app.state.planner.close()


def finished(site: Site, tags: str) -> str:
    run = control.start(site, ["cm", "run", "script", f"--tags={tags}"])
    wait_for(lambda: not control.job(site, run).running)
    return run


def test_pages_have_no_serious_fault_of_access_and_fit_each_width(
    chromium: Any, served: Site
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    run = finished(served, "is-fails")
    watched = Watched(chromium, entrance(served))
    for path, ready in PAGES.items():
        page = watched.show(path.format(run=run), ready)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = axe.run(page).response["violations"]
            told = {
                each["id"]: [node["html"] for node in each["nodes"]]
                for each in found
                if each["impact"] in ("serious", "critical")
            }
            assert told == {}, (path, scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, width)
    watched.close()


def test_a_command_is_composed_run_and_watched_by_keyboard_alone(
    chromium: Any, served: Site
) -> None:
    watched = Watched(chromium, entrance(served))
    page = watched.show("/", "main")

    tab_to(page, ".skip")
    tab_to(page, "#words")
    page.keyboard.type("quick")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?words=quick")
    tab_to(page, "a[href='/script/quick']")
    page.keyboard.press("Enter")
    page.wait_for_selector(SETTLED, state="attached")
    tab_to(page, "summary")
    page.keyboard.press("Enter")
    tab_to(page, "[name=quiet]")
    page.keyboard.press("Space")
    page.wait_for_selector("#command:has-text('--quiet')")
    assert page.url.endswith("/script/quick?quiet=yes")
    tab_to(page, "[data-form=Python]")
    page.keyboard.press("Enter")
    assert "api.run" in page.inner_text("#command")
    tab_to(page, "#run")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    page.wait_for_selector("#job[data-ended]:has-text('done')", state="attached")
    assert "all is well" in page.inner_text("#lines")
    assert "quick" in page.inner_text("#steps")
    tab_to(page, "#search")
    page.keyboard.type("thing to see")
    page.wait_for_selector("#found:has-text('1 of')")
    watched.close()


def test_a_run_is_followed_live_and_stopped(chromium: Any, served: Site) -> None:
    watched = Watched(chromium, entrance(served))
    page = watched.show("/script/long", SETTLED)
    page.click("#run")
    page.wait_for_selector("#lines:has-text('begun')")
    assert page.get_attribute("#job", "data-status") == "running"
    page.click("#stop")
    page.wait_for_selector("#again")
    assert page.inner_text("#status") in ("interrupted", "killed")
    # Only what looks like trouble, and then all of it again.
    page.check("#errors")
    page.wait_for_selector("#found:has-text(' of ')")
    watched.close()


def test_a_log_that_is_shown_in_part_says_so(chromium: Any, served: Site) -> None:
    run = finished(served, "is-quick")
    watched = Watched(chromium, entrance(served))
    page = watched.show(f"/jobs/{run}", "#job[data-ended]")
    assert page.inner_text("#found").endswith(" lines")
    assert "last" not in page.inner_text("#found")
    assert not page.is_visible("#whole")
    log = Path(control.job(served, run).run.folder, "log.txt")
    log.write_text("".join(f"line {number}\n" for number in range(1, 400_001)))
    page = watched.show(f"/jobs/{run}", "#job[data-ended]")
    assert page.inner_text("#found") == "the last 20,000 of 400,000 lines"
    assert page.get_attribute("#whole", "href") == f"/jobs/{run}/log"
    assert page.is_visible("#whole")
    page.fill("#search", "line 399999")
    page.wait_for_selector("#found:has-text('1 in the last 20,000 of 400,000 lines')")
    watched.close()


def test_what_the_planner_refuses_is_disabled_with_its_reason(chromium: Any, served: Site) -> None:
    watched = Watched(chromium, entrance(served))
    page = watched.show("/script/picks", SETTLED)
    found = "all => all.map(each => [each.value, each.title])"
    [(value, reason)] = page.eval_on_selector_all("option:disabled", found)
    assert value == "_lost"
    assert "nowhere,to,be,found" in reason
    assert "cannot be combined" in page.inner_text(".reasons")
    # The link restores all of it; a value that is refused stays where a link has set it.
    page.select_option("[name=speed]", "fast")
    page.wait_for_selector("#command:has-text('--speed=fast')")
    again = watched.show(page.url.partition(watched.host)[2] + "&tags=_lost", SETTLED)
    assert again.input_value("[name=speed]") == "fast"
    assert again.input_value("[name=tags]") == "_lost"
    assert "nowhere,to,be,found" in again.inner_text("#plan [role=alert]")
    watched.close()
