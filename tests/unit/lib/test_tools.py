"""Finding a tool: which one is taken, what is said of the others, where is looked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib.tools import bounds_of, find_tool, not_found, search_folders
from steps import tool


def look(*where: Path, **env: str) -> Any:
    return find_tool("cc", map(str, where), bounds_of(env))


def test_the_first_that_fits_is_taken_and_every_one_is_listed(tmp_path: Path) -> None:
    old = tool(tmp_path / "a/cc", "echo cc 9.1.0")
    broken = tool(tmp_path / "b/cc", "echo 'no library' >&2; exit 127")
    silent = tool(tmp_path / "c/cc", "echo hello")
    good = tool(tmp_path / "d/cc", "echo 'cc (built 2024) 12.2' >&2")
    never = tool(tmp_path / "e/cc", f"touch {tmp_path}/ran; echo 13.0")
    (tmp_path / "f").mkdir()
    folders = [path.parent for path in (old, broken, silent, good, never)]
    found = look(tmp_path / "f", *folders, CM_VERSION_MIN="11")
    assert (found.tool.path, found.tool.version) == (str(good), "12.2")
    assert found.lines == (
        f"{old}: 9.1.0 is below the minimum 11",
        f"{broken}: does not run: exit status 127: no library",
        f"{silent}: printed no version",
        f"{good}: 12.2, chosen",
    )
    assert not (tmp_path / "ran").exists()


def test_one_that_fails_when_it_tells_its_version_is_taken_where_that_is_known(
    tmp_path: Path,
) -> None:
    absent = tool(tmp_path / "a/cc", "echo cc 8.0; exit 127")
    told = tool(tmp_path / "b/cc", "echo cc 9.0; exit 1")
    assert look(absent.parent, told.parent).tool is None
    found = find_tool("cc", [str(absent), str(told)], bounds_of({}), any_status=True)
    assert found.tool is not None
    assert found.tool.path == str(told)


def test_the_same_file_under_two_paths_is_asked_once(tmp_path: Path) -> None:
    path = tool(tmp_path / "a/cc", "echo 1.0")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert len(look(path.parent, tmp_path / "b", CM_VERSION_MIN="2").lines) == 1


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    path = tool(tmp_path / "my-cc", "echo 1.0")
    assert look(path, CM_VERSION="1.0").tool.path == str(path)


def test_where_is_looked(tmp_path: Path) -> None:
    automation = SimpleNamespace(get_default_path_list=lambda i: ["/bin", "relative"])
    assert search_folders({"env": {}, "automation": automation}) == ["/bin"]
    assert search_folders({"env": {"CM_TMP_PATH": f"{tmp_path}:/bin"}}) == [str(tmp_path), "/bin"]
    with pytest.raises(Error, match="does not exist"):
        search_folders({"env": {"CM_TMP_PATH": f"{tmp_path}/none"}})


def test_the_failure_reports_what_was_seen(tmp_path: Path) -> None:
    nothing = look(tmp_path)
    assert "cc is not in any" in not_found("cc", nothing, bounds_of({})).context[0]
    tool(tmp_path / "cc", "echo 1.0")
    bounds = bounds_of({"CM_VERSION": "2.0"})
    error = not_found("cc", look(tmp_path, CM_VERSION="2.0"), bounds)
    assert error.message == "no suitable cc was found (2.0)"
    assert error.context == (f"{tmp_path}/cc: 1.0 is not 2.0",)
