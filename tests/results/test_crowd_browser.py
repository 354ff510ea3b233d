"""The pages of volunteers' results in a real browser: no fault of access, by keyboard alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from crowd_lab import Http, Volunteer, checked

from browser_lab import Watched, browser, tab_to
from cmbench_crowd import manifest as m
from cmbench_crowd_server import api, work
from cmbench_crowd_server.app import create_app
from cmbench_crowd_server.checker import Checker
from cmbench_crowd_server.files import Files
from cmbench_crowd_server.ledger import Ledger, check
from cmbench_gui.server import listening
from cmbench_gui.site import Site
from cmbench_results.result_sources import SourceFiles
from cmbench_results.schema import crowd_run
from cmbench_results.store import Store
from support import wait_for

WIDTHS = (390, 1280, 1920)
LONG = "AMD Ryzen Threadripper PRO 7995WX 96-Cores with a name that goes on and on @ 2.50GHz"
CHECKS = [
    check("log", True, "the figure is that of the detailed log"),
    check("plausible", None, "no operations are known of this model, so no bound was looked at"),
    check("agreement", False, "1 of 1 independent hosts with this hardware and work disagree"),
]


@dataclass(frozen=True)
class Lab:
    """A server, what it keeps, and the uploads and the contributor that its pages show."""

    base: str
    crowd: api.CrowdServer
    shown: str
    waiting: str
    sender: str


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    import uvicorn

    folder = tmp_path_factory.mktemp("crowd")
    store = Store(SourceFiles(folder / "CM" / "cmbench"), "")
    ledger, files = Ledger(store, b"secret"), Files(folder / "files")
    crowd = api.CrowdServer(ledger, files, Checker(ledger, files, folder / "published", False))
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = create_app(Site(str(folder / "CM"), b"k" * 32, port=port, may_run=False), crowd)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    base = f"http://127.0.0.1:{port}"
    yield filled(base, crowd)
    server.should_exit = True
    thread.join()
    store.close()


def filled(base: str, crowd: api.CrowdServer) -> Lab:
    """Two volunteers with a class of hardware in common; one upload waits, work is wanted."""
    sent = [
        upload(crowd, volunteer, cpu, value)
        for volunteer in (Volunteer(Http(), base), Volunteer(Http(), base))
        for cpu, value in (("Intel CPU @ 2.60GHz", 12.5), (LONG, 1234.5))
    ]
    waiting = upload(crowd, Volunteer(Http(), base), "Other CPU", 1.0)
    for run, value in sent:
        crowd.checker.accept(run, "me")
        with crowd.ledger.store.writing() as connection:
            at = crowd_run.c.id == run
            kept = {"tier": "reproduced", "value": value, "seconds": 660.0, "checks": CHECKS}
            connection.execute(crowd_run.update().where(at).values(**kept))
    for benchmark in ("bert-99", "llama2-70b-interactive-99.9"):
        spec = {"benchmark": benchmark, "scenario": "Server", "backend": "onnxruntime"}
        work.want(crowd.ledger, spec)
    sender = crowd.ledger.row(sent[0][0])["sender"]
    return Lab(base, crowd, sent[0][0], waiting[0], sender)


def upload(crowd: api.CrowdServer, one: Volunteer, cpu: str, value: float) -> tuple[str, float]:
    system = m.ManifestSystem(cpu=cpu, architecture="x86_64", cores=2, memory_gb=25.3)
    told = one.manifest({}, value, files=(), system=system)
    assert one.post(told).status_code == 201
    one.client.post(f"{one.base}/api/v1/runs/{told.id}/finalize")
    checked(crowd)
    return told.id, value


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def pages(lab: Lab) -> list[str]:
    own = [f"/contributors/{lab.sender}", f"/uploads/{lab.shown}", f"/uploads/{lab.waiting}"]
    return ["/contributors", *own, "/wanted", "/api", "/results", "/uploads/none"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_the_crowd_have_no_serious_fault_of_access_and_fit_each_width(
    chromium: Any, lab: Lab, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    watched = Watched(chromium, lab.base, scheme=scheme)
    for path in pages(lab):
        page = watched.show(path, "main")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        found = axe.run(page).response["violations"]
        told = {
            each["id"]: [node["html"] for node in each["nodes"]]
            for each in found
            if each["impact"] in ("serious", "critical")
        }
        assert told == {}, path
    watched.close()


def test_dates_and_names_of_uploads_stand_on_one_line(chromium: Any, lab: Lab) -> None:
    watched = Watched(chromium, lab.base, width=1280)
    page = watched.show(f"/contributors/{lab.sender}", "main")
    # A range has a rectangle for each line of a text.
    lines = """all => all.map(each => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return new Set([...range.getClientRects()].map(one => Math.round(one.bottom / 8))).size;
    })"""
    for name in ("day", "checks"):
        assert {*page.eval_on_selector_all(f"td[data-name={name}]", lines)} == {1}, name
    watched.close()


def test_a_result_is_found_and_its_checks_are_read_by_keyboard_alone(
    chromium: Any, lab: Lab
) -> None:
    watched = Watched(chromium, lab.base)
    page = watched.show("/results", "main")

    def follow(address: str) -> None:
        tab_to(page, f"a[href='{address}']")
        with page.expect_navigation():
            page.keyboard.press("Enter")

    for address in ("/contributors", f"/contributors/{lab.sender}", f"/uploads/{lab.shown}"):
        follow(address)
    assert "the figure is that of the detailed log" in page.inner_text("main")
    follow("/wanted")
    assert "llama2-70b-interactive-99.9" in page.inner_text("main")
    watched.close()
