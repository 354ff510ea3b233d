"""Reading and checking meta files: no input is answered with a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cmbench.errors import Error
from cmbench.format.meta import SCRIPT_KEYS, check, parse_script, read_meta
from cmbench.format.model import Tags
from cmbench.index.scripts import Index, Repository
from support import ROOT

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(SCRIPT_KEYS)) | st.text(max_size=5), ANYTHING))
def test_whatever_a_meta_holds_is_checked_without_a_crash(meta: dict[str, Any]) -> None:
    faults = check(meta)
    assert all(fault.where or fault.message for fault in faults)
    if not faults:
        parse_script(meta, "/x", "r")


@pytest.mark.parametrize("text", ["", "- a\n", "just text", "a: [", "\0", "1: 2"])
def test_odd_files_are_reported_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.yaml").write_text(text)
    if text == "1: 2":
        assert read_meta(str(tmp_path)) == {1: 2}
        return
    with pytest.raises(Error, match=r"meta\.yaml") as caught:
        read_meta(str(tmp_path))
    assert caught.value.code == "bad-meta"


def test_json_overrides_yaml_and_both_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "_cm.yaml").write_text("alias: a\nuid: '1'\ntags: [x]\n")
    (tmp_path / "_cm.json").write_text('{"alias": "b"}')
    assert read_meta(str(tmp_path)) == {"alias": "b", "uid": "1", "tags": ["x"]}


def test_every_script_here_is_faultless() -> None:
    for path in sorted((ROOT / "script").glob("*/meta.yaml")):
        meta = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [f"{f.where}: {f.message}" for f in check(meta)] == [], path.parent.name


def test_an_index_sees_changes_and_survives_strange_scripts(tmp_path: Path) -> None:
    root = tmp_path / "repo" / "script"
    for name, text in {
        "good": "alias: good\nuid: g\ntags: [a, b]\n",
        "bad": "tags: [a\n",
        "list": "- 1\n",
    }.items():
        (root / name).mkdir(parents=True)
        (root / name / "meta.yaml").write_text(text)
    (root / "empty").mkdir()

    def found() -> list[str]:
        index = Index([Repository("r", str(tmp_path / "repo"))], str(tmp_path / "db" / "i.db"))
        try:
            return [row.alias for row in index.find(Tags(("a",)))]
        finally:
            index.close()

    assert found() == ["good"]
    assert found() == ["good"]
    (root / "bad" / "meta.yaml").write_text(
        "alias: bad\nuid: b\ntags: [a, long enough to differ]\n"
    )
    assert found() == ["bad", "good"]
    (root / "good" / "meta.yaml").unlink()
    assert found() == ["bad"]
