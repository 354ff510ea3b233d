"""The words by which CM's users start the pages."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from support import HANG_S, Home

SPELLINGS = {
    "words": ("run", "script", "cm gui"),
    "tags": ("run", "script", "--tags=gui"),
    "graph": ("run", "script", "--tags=cm,gui,_graph"),
    "script": ("run", "script", "--tags=gui", "--script=run-mlperf,inference,_tiny"),
    "verb": ("gui", "script", "--tags=run-mlperf,inference,_tiny", "--device=cpu"),
    "results": ("gui", "results"),
}
SHOWN = {
    "words": "/",
    "tags": "/",
    "graph": "/results",
    "script": "/script/run-mlperf-inference-app?tags=_tiny",
    "verb": "/script/run-mlperf-inference-app?tags=_tiny&device=cpu",
    "results": "/results",
}


class Stays(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: what is answered first is looked at."""

    def redirect_request(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_known_spellings_serve_the_page_that_they_mean(home: Home, spelling: str) -> None:
    words = (*SPELLINGS[spelling], "--no_browser", "--port=0", "--title=Lab")
    with home.serving(*words) as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/enter/[0-9a-f]{64}\S*", address)
        with pytest.raises(urllib.error.HTTPError) as told:
            urllib.request.build_opener(Stays).open(address)
        assert told.value.headers["location"] == SHOWN[spelling]
        jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        if SHOWN[spelling] != "/results":
            assert "· Lab</title>" in jar.open(address).read().decode()


def test_a_port_that_is_taken_is_one_clear_error(home: Home) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = home.cm("gui", "script", "--no_browser", f"--port={port}")
    assert told.status == 1
    assert "error [cannot-listen]" in told.stderr
    assert f"--port={port + 1}" in told.stderr


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--port=many"], "bad-value"),
        (["--nonsense"], "unknown-flag"),
        (["--tags=no,such,script"], "script-not-found"),
    ],
)
def test_a_wrong_flag_is_refused_before_anything_is_served(
    home: Home, flags: list[str], code: str
) -> None:
    told = home.cm("gui", "script", "--no_browser", *flags)
    assert told.status != 0
    assert f"error [{code}]" in told.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("script", "--tags=detect,os", "--bogus=1"), "detect-os knows no flag --bogus"),
        (("script", "--tags=run-mlperf,inference,_tiny", "--devise=cpu"), 'did you mean "device"'),
        (("script", "--tags=detect,os", "--prot=0"), 'did you mean "port"?'),
        (("script", "--tags=detect,os", "--foo.bar=1"), "detect-os knows no flag --foo"),
        (("script", "--db"), "--db needs a value"),
        (("script", "--db=nonsense"), "--db=nonsense is not an address of a database"),
        (("results", "--db=nonsense"), "--db=nonsense is not an address of a database"),
        (("results", "--title"), "--title needs a value"),
    ],
)
def test_what_no_page_could_show_is_refused_before_they_are_served(
    home: Home, words: tuple[str, ...], told: str
) -> None:
    done = home.cm("gui", *words, "--no_browser", timeout=HANG_S)
    assert done.status == 4
    assert told in done.stderr
    assert "pages of" not in done.stdout
