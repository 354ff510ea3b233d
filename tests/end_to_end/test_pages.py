"""From a clean home to a result, by the pages alone: compose, run, watch, explore."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser_lab import Watched, browser
from support import Home

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]


@pytest.fixture
def address(home: Home) -> Iterator[str]:
    """What ``cm gui script`` prints."""
    words = ["gui", "script", "--tags=run-mlperf,inference,_tiny", "--no_browser", "--port=0"]
    process = subprocess.Popen(
        [str(home.bin / "cm"), *words],
        cwd=home.path,
        env=home.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    # The first command in a home also tells of cmind's own index.
    found = (re.search(r"http://127\.0\.0\.1\S+", line) for line in process.stdout)
    yield next(match[0] for match in found if match)
    process.terminate()
    process.wait()


def test_the_tiny_benchmark_from_the_form_to_the_explorer(
    home: Home, address: str, tmp_path: Path
) -> None:
    with browser() as chromium:
        watched = Watched(chromium, address)
        page = watched.page
        # The benchmark itself takes 10 s; what it needs is installed first.
        page.set_default_timeout(1_200_000)
        page.wait_for_selector("form[data-settled]", state="attached")
        page.select_option("[name=backend]", "onnxruntime")
        page.click("summary:has-text('Numbers')")
        page.fill("[name=min_duration]", "1000")
        page.wait_for_selector("#command:has-text('--min_duration=1000')")
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
