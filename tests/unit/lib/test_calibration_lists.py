"""Lists of calibration data: any other file is one error that says where it differs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import benchmark_lab as lab
from cmbench.errors import Error

entries = lab.hooks("calibration_lists").entries
CASE = re.compile(r"case_\d{5}")


def written(folder: Path, text: str) -> str:
    path = folder / "list.txt"
    path.write_bytes(text.encode("latin-1"))
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "case_00002\ncase_00001\ncase_00003\n",
        "case_00002\r\ncase_00001\r\n\r\ncase_00003",
        "case_00002 0\ncase_00001 1\ncase_00003 2\n",
        "case_00002\ncase_00001\ncase_00002\ncase_00003\n",
    ],
    ids=["plain", "other line ends", "numbered", "one twice"],
)
def test_entries_come_in_the_order_of_the_list(text: str, tmp_path: Path) -> None:
    expected = ["case_00002", "case_00001", "case_00003"]
    assert entries(written(tmp_path, text), 3, CASE) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case_00001\ncase_00002\n", "it names 2"),
        ("case_00001\ncase_00001\ncase_00002\n", "it names 2"),
        ("", "it names 0"),
        ("case_00001\n../case_00002\ncase_00003\n", 'line 2 says "../case_00002"'),
        ("\n<!DOCTYPE html>\n<p>\n<!DOCTYPE html>\n", 'line 2 says "<!DOCTYPE"'),
        ("\xff\x00" * 99, 'line 1 says "\ufffd'),
    ],
)
def test_another_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Error) as caught:
        entries(path, 3, CASE, "cases")
    assert caught.value.code == "data-wrong"
    assert caught.value.message.startswith(f"{path} is not a list of 3 cases: ")
    assert said in caught.value.message
    assert "--env.CM_PACKAGE_URL=FILE" in caught.value.hint


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match="cannot read the list of 3 entries") as caught:
        entries(str(tmp_path / "none.txt"), 3, CASE)
    assert "No such file" in caught.value.message
