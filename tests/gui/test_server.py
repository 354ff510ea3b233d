"""Who is let in, what every answer carries, and what the pages never do."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cmbench.errors import Error
from cmbench_gui.access import entrance
from cmbench_gui.pages import HERE
from cmbench_gui.server import listening
from cmbench_gui.site import Site, kept_key

PAGES = ("/", "/jobs")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_served_with_a_policy_that_lets_nothing_else_in(
    client: TestClient, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "<main" in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_without_the_key_sees_nothing(unauthenticated: TestClient, path: str) -> None:
    answer = unauthenticated.get(path)
    assert answer.status_code == 401
    assert "cm gui script" in answer.text
    unauthenticated.get(f"/enter/{'0' * 64}")
    assert unauthenticated.get(path).status_code == 401


@pytest.mark.parametrize(
    ("target", "place"),
    [("/jobs", "/jobs"), ("//elsewhere", "/"), ("/\\elsewhere", "/"), ("https://elsewhere", "/")],
)
def test_who_is_let_in_stays_on_this_server(
    unauthenticated: TestClient, site: Site, target: str, place: str
) -> None:
    answer = unauthenticated.get(f"/enter/{site.key.hex()}", params={"next": target})
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    assert "httponly" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8501", "", "[::1", "10.1.2.3", "a@localhost", "127.0.0.1:1:2"],
)
def test_a_name_that_was_pointed_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"x-token": "stale"}, 403),
        ({}, 403),
    ],
)
def test_what_writes_wants_the_token_of_a_page_of_its_own(
    client: TestClient, site: Site, headers: dict[str, str], status: int
) -> None:
    token = {"x-token": site.token} if "x-token" not in headers and headers else {}
    assert client.post("/jobs", headers={**token, **headers}).status_code == status


def test_a_form_carries_the_token_in_a_field(client: TestClient, site: Site) -> None:
    # Behind the guard: there is no such page.
    assert client.post("/nothing", data={"token": site.token}).status_code == 404
    assert client.post("/nothing", data={"token": "x"}).status_code == 403


def test_a_request_without_end_is_cut(client: TestClient, site: Site) -> None:
    answer = client.post("/jobs", headers={"x-token": site.token}, content=b"x" * 400_000)
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_not_answered(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", ["/nothing", "/static/../access.py", "/static/%2e%2e/access.py"])
def test_what_is_not_there_is_told_as_a_page(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "class Guard" not in answer.text


def test_text_of_a_user_is_never_markup(client: TestClient) -> None:
    answer = client.get("/", params={"words": "<script>alert(1)</script>"})
    assert "<script>alert" not in answer.text


def test_pages_and_styles_ask_nobody_else() -> None:
    """No address of another host in anything that a browser gets."""
    files = [path for path in HERE.glob("**/*") if path.suffix in (".html", ".css", ".js", ".svg")]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text, re.IGNORECASE), path
        assert " style=" not in text, path
        assert not re.search(r"<script(?![^>]*(src=|type=\"application/json\"))", text), path
        assert not re.search(r"\son[a-z]+=", text), path


def test_the_key_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    key = kept_key(str(tmp_path))
    assert kept_key(str(tmp_path)) == key
    path = tmp_path / "cmbench" / "gui" / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"half")
    assert len(kept_key(str(tmp_path))) == 32
    assert os.listdir(path.parent) == ["key"]


def test_a_port_that_is_taken_is_told_or_passed_over() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(Error, match="no page can be served") as told:
            listening("127.0.0.1", port)
        assert told.value.code == "cannot-listen"
        with listening("127.0.0.1", port, any_port=True) as second:
            assert second.getsockname()[1] > port


def test_the_printed_address_of_all_interfaces_is_one_that_works_here(site: Site) -> None:
    assert entrance(site).startswith("http://127.0.0.1:8501/enter/")
    assert entrance(site, "/results").endswith("?next=/results")


def test_pages_start_without_what_only_an_older_database_needs() -> None:
    code = (
        "import sys, cmbench_gui.server, cmbench_gui.explorer.pages\n"
        "print({'alembic', 'mako', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
