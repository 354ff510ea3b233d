"""The explorer in a real browser: by keyboard alone, no fault of access, nothing from outside."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import NEWER_ROW, ROW, experiments, own_run

from cmbench_gui.access import entrance
from cmbench_gui.server import create_app, listening
from cmbench_gui.site import Site
from cmbench_results.result_sources import SourceFiles
from support import HANG_S, ROOT

CHROMIUM = os.environ.get("CMBENCH_TEST_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")

WIDTHS = (390, 600, 768, 900, 1024, 1190, 1440)
PLOT = "/results/plot?benchmark=bert-99&scenario=Offline&x=value&y=throughput&by=system"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server, in a thread, of a home with results."""
    import uvicorn

    folder = tmp_path_factory.mktemp("explorer")
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    made = Site(str(folder / "CM"), b"k" * 32, (str(ROOT),), port=port, folder=str(folder))
    places = SourceFiles(made.workspace().root)
    fast = {**ROW, "Platform": "box_9", "SystemName": "Box Nine", "Result": 5000}
    # As long as those of published rounds.
    long = {
        **fast,
        "Organization": "Quanta_Cloud_Technology (long)",
        "Platform": "long",
        "SystemName": "1-node-2S ThinkSystem SR680a V3(8x H200-SXM-141GB, TensorRT_Triton)",
        "accelerator_model_name": "NVIDIA GH200-GraceHopper-Superchip-96GB_aarch64",
        "accelerators_per_node": 8,
        "Result": 1234567.89,
    }
    places.add(experiments(folder / "published", ROW, fast, NEWER_ROW, long))
    places.add(own_run(folder / "own"))
    server = uvicorn.Server(uvicorn.Config(create_app(made), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield made
    server.should_exit = True
    thread.join(HANG_S)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Seen:
    """A page that was let in, what it asked of others, and what its scripts complained of."""

    def __init__(self, browser: Any, site: Site, width: int, scheme: str) -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.base = f"http://127.0.0.1:{site.port}"
        self.faults: list[str] = []
        self.page.on("console", lambda said: self.faults.append(said.text))
        self.page.on("pageerror", lambda problem: self.faults.append(str(problem)))
        self.page.on("request", self._asked)
        self.page.goto(entrance(site, "/results"))
        self.faults.clear()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.faults.append(request.url)

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_pages_have_no_fault_of_access_and_nothing_from_outside(
    browser: Any, site: Site, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Seen(browser, site, width, scheme) as seen:
        ids = [row["uid"] for row in _rows(seen)]
        pages = ["/results", f"/results?in={ids[0]}&in={ids[1]}", PLOT, f"{PLOT}&draw=bars"]
        pages += [f"/results/{ids[0]}", f"/results/compare?id={ids[0]}&id={ids[1]}"]
        for path in (*pages, "/results/plot"):
            seen.page.goto(seen.base + path)
            found = Axe().run(seen.page).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == [], path
            wide = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, path
        assert seen.faults == []


def _rows(seen: Seen) -> list[dict[str, Any]]:
    answer = seen.context.request.get(f"{seen.base}/results/export.json?benchmark=bert-99")
    found: list[dict[str, Any]] = answer.json()
    return found


def _follow(page: Any, words: str) -> None:
    """Press the tabulator until what has the focus is called so, and follow it."""
    name = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
    for _ in range(150):
        page.keyboard.press("Tab")
        if words in str(page.evaluate(name)):
            with page.expect_navigation():
                page.keyboard.press("Enter")
            return
    raise AssertionError(f"no key leads to {words}")


def test_two_results_are_chosen_and_compared_by_keyboard_alone(browser: Any, site: Site) -> None:
    with Seen(browser, site, 1280, "light") as seen:
        chosen = "Select to compare: bert-99 Offline, Box"
        for words in ("bert-99", f"{chosen} Nine", f"{chosen} One", "Compare"):
            _follow(seen.page, words)
        assert "What differs" in seen.page.inner_text("main")
        assert "x 0.2" in seen.page.inner_text("main")
        assert seen.faults == []


def test_long_names_stay_in_the_card_at_seven_widths(browser: Any, site: Site) -> None:
    outside = """() => {
        const region = document.querySelector('.scrolls'), card = region.closest('section');
        const end = card.getBoundingClientRect().right;
        const words = [...card.querySelectorAll('p, .chips, .pager, .scrolls')];
        return words.filter((e) => e.getBoundingClientRect().right > end + 1).length
            + Math.max(0, document.documentElement.scrollWidth - innerWidth)
            + (innerWidth >= 1190 ? Math.max(0, region.scrollWidth - region.clientWidth) : 0);
    }"""
    with Seen(browser, site, 1440, "light") as seen:
        for path in ("/results?organization=*long*", "/results?tier=local", "/results"):
            seen.page.goto(seen.base + path)
            for width in WIDTHS:
                seen.page.set_viewport_size({"width": width, "height": 900})
                assert seen.page.evaluate(outside) == 0, (path, width)
        assert "power" not in seen.page.locator("thead").inner_text(), "it has nothing to show"
        assert seen.faults == []


def test_a_plot_and_its_axes_fit_one_screen(browser: Any, site: Site) -> None:
    with Seen(browser, site, 1440, "light") as seen:
        for draw, height in itertools.product(("scatter", "course"), (720, 900)):
            seen.page.set_viewport_size({"width": 1440, "height": height})
            seen.page.goto(f"{seen.base}{PLOT}&draw={draw}")
            assert seen.page.locator(".wide-only svg").bounding_box()["height"] >= 300
            for words in seen.page.locator(".wide-only svg text").all():
                box = words.bounding_box()
                assert box["x"] >= 0
                assert box["y"] + box["height"] <= height, words.inner_text()


def test_no_word_of_an_axis_is_cut_off(browser: Any, site: Site) -> None:
    outside = """() => {
        const seen = [...document.querySelectorAll('.sheet svg')].find((e) => e.clientWidth);
        const sheet = seen.getBoundingClientRect();
        return [...seen.querySelectorAll('text')].filter((e) => {
            const box = e.getBoundingClientRect();
            return box.left < sheet.left - 1 || box.right > sheet.right + 1
                || box.top < sheet.top - 1 || box.bottom > sheet.bottom + 1;
        }).map((e) => e.textContent);
    }"""
    with Seen(browser, site, 1440, "light") as seen:
        for draw, width in itertools.product(("scatter", "course", "bars"), WIDTHS):
            seen.page.goto(f"{seen.base}{PLOT}&draw={draw}")
            seen.page.set_viewport_size({"width": width, "height": 900})
            assert seen.page.evaluate(outside) == [], (draw, width)


def test_pages_of_a_phone_are_short_and_scroll_one_way(browser: Any, site: Site) -> None:
    sideways = """() => [...document.querySelectorAll('main *')].filter((e) =>
        e.scrollWidth > e.clientWidth + 1
        && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).length"""
    with Seen(browser, site, 390, "light") as seen:
        ids = [row["uid"] for row in _rows(seen)]
        seen.page.goto(f"{seen.base}/results?benchmark=bert-99&scenario=Offline")
        for row in seen.page.locator("tbody tr").all():
            assert row.bounding_box()["height"] <= 190, row.inner_text()
        side = f"/results/compare?{'&'.join(f'id={uid}' for uid in ids[:3])}"
        for path in (f"{PLOT}&draw=bars", f"{PLOT}&draw=scatter", side):
            seen.page.goto(seen.base + path)
            assert seen.page.evaluate(sideways) == 0, path
        assert seen.page.locator(".side .letter").nth(2).is_visible()
        assert seen.faults == []


def test_filters_open_above_the_results_of_a_small_screen(browser: Any, site: Site) -> None:
    with Seen(browser, site, 768, "light") as seen:
        filters = seen.page.locator("#filters")
        assert not filters.is_visible()
        seen.page.get_by_role("link", name="Filters", exact=True).click()
        assert filters.is_visible()
        seen.page.get_by_role("link", name="Close the filters").click()
        assert not filters.is_visible()
        assert seen.faults == []


def test_a_control_of_a_plot_works_at_once(browser: Any, site: Site) -> None:
    with Seen(browser, site, 1280, "light") as seen:
        seen.page.goto(seen.base + PLOT)
        seen.page.get_by_label("colour").select_option("organization")
        seen.page.wait_for_url("**by=organization**")


def test_a_range_is_drawn_with_the_pointer_and_a_picture_is_saved(
    browser: Any, site: Site, tmp_path: Path
) -> None:
    with Seen(browser, site, 1280, "light") as seen:
        seen.page.goto(seen.base + PLOT)
        box = seen.page.locator(".wide-only svg").bounding_box()
        seen.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 2)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] * 0.6)
        seen.page.mouse.up()
        seen.page.wait_for_url("**xmin=**")
        assert "1 result," in seen.page.inner_text("main")
        with seen.page.expect_download() as saved:
            seen.page.get_by_role("button", name="PNG").click()
        saved.value.save_as(tmp_path / "results.png")
        assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
        assert seen.faults == []
