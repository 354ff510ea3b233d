"""Parts of a meta.yaml that a program of the repository writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.author.meta_parts import filled, meta_files
from cmbench.errors import Error

META = """alias: made
variations:
  # begin: colours, written by `cm doc script` from {program}
  old: {{}}
  # end: colours
tags: [made]
"""
PROGRAM = 'import json; print(json.dumps({"colours": "red:\\n  group: colour"}))\n'


def script(folder: Path, program: str, text: str = PROGRAM) -> Path:
    folder.mkdir()
    (folder / program).write_text(text, encoding="utf-8")
    (folder / "meta.yaml").write_text(META.format(program=program), encoding="utf-8")
    return folder


def test_lines_are_put_between_the_marks_at_their_indentation(tmp_path: Path) -> None:
    made = script(tmp_path / "made", "parts.py")
    (wanted,) = meta_files([str(made), str(tmp_path)]).values()
    assert "  red:\n    group: colour\n  # end: colours\ntags: [made]\n" in wanted
    assert "old" not in wanted
    assert filled(wanted, str(made)) == wanted


def test_a_meta_file_without_marks_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("alias: plain\n", encoding="utf-8")
    assert meta_files([str(tmp_path)]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [("raise SystemExit('no')", "failed: no"), ("print('{}')", "writes no part named colours")],
)
def test_a_program_that_does_not_write_the_part_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    made = script(tmp_path / "made", "broken.py", text)
    with pytest.raises(Error, match=message):
        meta_files([str(made)])
