"""The linter: a bad and a good example of every check, lines, choices, and safe corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.author.checks import REGISTRY
from cmbench.author.lint import LintFault, choose_checks, fix, line_of, lint
from cmbench.errors import Error
from cmbench.index.scripts import Index, Repository

SCHEMA = "# yaml-language-server: $schema=../../schema/meta.schema.json\n"
HEAD: Mapping[str, Any] = {
    "alias": "get-x",
    "uid": "0123456789abcdef",
    "automation_alias": "script",
    "automation_uid": "5b4e0237da074764",
    "name": "The thing x",
    "tags": ["get", "x"],
}
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "get-y": {"tags": ["get", "y"], "uid": "1" * 15 + "a", "variations": {"a": {}, "v.#": {}}},
    "get-z": {"tags": ["get", "z", "one"], "uid": "2" * 15 + "a"},
    "get-z2": {"tags": ["get", "z", "two"], "uid": "3" * 15 + "a", "new_env_keys": ["CM_Z_*"]},
}


@dataclass(frozen=True)
class Example:
    """A script: changes to its meta (``None`` removes a key), other files, the head of its meta."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    head: str = SCHEMA
    without: tuple[str, ...] = ()

    def write(self, root: Path, alias: str = "get-x") -> Path:
        path = root / "script" / alias
        path.mkdir(parents=True)
        meta = {k: v for k, v in {**HEAD, **self.meta}.items() if v is not None}
        text = self.head + yaml.safe_dump(meta, sort_keys=False)
        files = {"README.md": "x", "detection_test.yaml": "[]", "meta.yaml": text, **self.files}
        for name, content in files.items():
            if name not in self.without:
                (path / name).write_text(content)
        return path


def index_of(root: Path) -> Index:
    return Index([Repository("r", str(root))], "/dev/null", write=False)


def faults(root: Path, example: Example, only: str = "") -> list[LintFault]:
    for alias, meta in OTHERS.items():
        Example({"alias": alias, **meta}).write(root, alias)
    (root / "lib/zoo").mkdir(parents=True)
    for name in ("__init__.py", "units.py", "other.py"):
        (root / "lib/zoo" / name).write_text("")
    path = example.write(root)
    return lint(str(path), index_of(root), choose_checks(REGISTRY, only))


def dep(tags: str, **more: Any) -> dict[str, Any]:
    return {"deps": [{"tags": tags, **more}]}


def inputs(**spec: Any) -> dict[str, Any]:
    return {"input_mapping": {"n": "CM_X_N"}, "input_description": {"n": spec}}


def shell(text: str) -> Example:
    return Example(files={"run.sh": text})


def code(export: str, text: str) -> Example:
    return Example({"new_env_keys": [export]}, {"customize.py": text})


def group(**block: Any) -> dict[str, Any]:
    return {
        **dep("get,<<<CM_X_KIND>>>"),
        "variations": {"p": {"group": "g", "env": {"CM_X_KIND": "y"}, **block}},
    }


URL = "https://host/x.tar.gz"
EXAMPLES: Mapping[str, list[tuple[Example, Example]]] = {
    "CMB101": [
        (Example({"new_env_key": []}), Example({"new_env_keys": []})),
        (Example({"variations": {"r1.2": {"evn": {}}}}), Example({"variations": {"r1.2": {}}})),
    ],
    "CMB102": [
        (Example({"deps": {"tags": "get,y"}}), Example(dep("get,y"))),
        (Example({"tags": None}), Example()),
    ],
    "CMB103": [(Example({"cache": True, "env": {}, "category": "c"}), Example({"cache": True}))],
    "CMB104": [(Example({"name": None}), Example()), (Example({"name": "a\nb"}), Example())],
    "CMB105": [(Example(head=""), Example()), (Example(head="# mine\n"), Example())],
    "CMB106": [
        (Example({"alias": "get-other"}), Example()),
        (Example({"uid": "123"}), Example()),
        (Example({"automation_uid": "1" * 16}), Example({"automation_alias": "script,5b4e"})),
    ],
    "CMB107": [
        (Example({"uid": "1" * 15 + "a"}), Example()),
        (Example({"tags": ["y", "get"]}), Example({"tags": ["get", "y", "x"]})),
    ],
    "CMB201": [
        (Example({"input_mapping": {"n": "CM_N"}}), Example(inputs(desc="d", type="int"))),
        (Example(inputs(desc="d")), Example(inputs(desc="d", type="str"))),
        (Example({"input_description": {"n": {"desc": "d", "type": "str"}}}), Example()),
    ],
    "CMB202": [
        (
            Example(inputs(desc="d", type="str", choices=["a"], default="b")),
            Example(inputs(desc="d", type="str", choices=["a"], default="a")),
        ),
        (
            Example(inputs(desc="d", type="int", default="many")),
            Example(inputs(desc="d", type="float", default=2.5)),
        ),
    ],
    "CMB205": [
        (
            Example(inputs(desc="d", type="str", only_with=["_none"])),
            Example(inputs(desc="d", type="str", only_with=["n=1"])),
        ),
    ],
    "CMB206": [
        (
            Example({**inputs(desc="d", type="str"), "help": {"groups": {"Most": ["m"]}}}),
            Example({**inputs(desc="d", type="str"), "help": {"groups": {"Most": ["n"]}}}),
        ),
    ],
    "CMB203": [
        (code("CM_X_PATH", "pass"), code("CM_X_PATH", "env['CM_X_PATH'] = ''")),
        (code("CM_X_*", "CM_Y_A"), code("CM_X_*", "f'CM_X_{name}'")),
        (code("CM_X_PATH", "CM_Y"), code("CM_X_PATH", "f'CM_X_{name}'")),
        (code("CM_Z_A", "pass"), Example({"new_env_keys": ["CM_Z_A"], **dep("get,z,two")})),
        (code("CM_X_A", "pass"), Example({"new_env_keys": ["CM_X_A"], "env": {"CM_X_A": 1}})),
        (code("+CM_X_LIST", "pass"), Example({"new_env_keys": ["+PATH", "<<<CM_X_NAME>>>"]})),
    ],
    "CMB204": [
        (
            code("CM_TOOL_VERSION", "def f(env):\n    env['CM_TOOL_VERSON'] = '1'\n"),
            code("CM_TOOL_VERSION", "def f(env):\n    env['CM_TOOL_VERSION'] = '1'\n"),
        ),
        (
            code("CM_TOOL_VERSION", "def f(env):\n    env.update({'CM_TOL_VERSION': '1'})\n"),
            code("CM_TOOL_VERSION", "CM_TOOL_VERSION CM_TOOL_VERSIONS (no Python"),
        ),
    ],
    "CMB301": [
        (Example(dep("get,yy")), Example(dep("get,y"))),
        (Example(dep("get,y,_b")), Example(dep("get,y,_a,_v.2,-x"))),
        (Example({"variations": {"w": dep("get,none")}}), Example(dep("get,<<<CM_KIND>>>"))),
    ],
    "CMB302": [
        (Example(dep("get,z")), Example(dep("get,z,one"))),
        (Example(dep("get,z", env={})), Example(dep("get,z", update_tags_from_env=["CM_K"]))),
    ],
    "CMB303": [
        (Example(group()), Example(group(default=True))),
        (Example(group()), Example({**group(), "default_env": {"CM_X_KIND": "y"}})),
    ],
    "CMB304": [
        (
            Example({"variations": {n: {"group": "g", "default": True} for n in "ab"}}),
            Example({"variations": {"a": {"group": "g", "default": True}, "b": {"group": "g"}}}),
        )
    ],
    "CMB305": [
        (
            Example({"variations": {"a": {"base": ["c"]}}}),
            Example({"variations": {"a": {"base": ["b", "d.1"]}, "b": {}, "d.#": {}}}),
        ),
        (
            Example({"variations": {"a": {"default_variations": {"g": "z"}}}}),
            Example({"variations": {"a": {"default_variations": {"g": "b"}}, "b": {}}}),
        ),
        (
            Example({"variations": {"a": {"group": "g"}}, "variation_groups_order": ["h"]}),
            Example({"variations": {"a": {"group": "g"}}, "variation_groups_order": ["g"]}),
        ),
    ],
    "CMB306": [
        (Example(dep("get,y", clean_env_keys=["A"])), Example(dep("get,y", force_env_keys=["A"]))),
        (Example(dep("get,y", depth=3)), Example(dep("get,y", name="one", path="/x"))),
        (Example(dep("get,<<<CM_X>>>", enable_if_evn={})), Example(dep("get,<<<CM_X>>>", depth=3))),
        (Example(dep("get,y", ad={"z": {"evn": {}}})), Example(dep("get,y", ad={"z": {"d": 1}}))),
        (Example({"adr": {"z": {"tag": "_a"}}}), Example({"adr": {"z": {"tags": "_a"}}})),
        (
            Example({"variations": {"v": dep("get,y", new_env_keys=["A"])}}),
            Example({"variations": {"v": dep("get,y", version="1.0")}}),
        ),
    ],
    "CMB401": [
        (shell("#!/bin/bash\necho\n"), shell("#!/bin/bash\nset -euo pipefail\necho\n")),
        (shell("set -x\necho\n"), shell("#!/bin/bash -e\necho\n")),
        (shell("set -u\necho\n"), shell("set -o errexit\necho\n")),
        (shell("echo"), shell("# nothing to do\n")),
    ],
    "CMB402": [
        (shell("set -e\nrm -rf $OUT_DIR/x\n"), shell('set -e\nrm -rf "$OUT_DIR/x"\n')),
        (shell("set -e\ncd ${PWD}/x\n"), shell("set -e\nX=$PWD/x # $PWD\n[[ -d $X_DIR ]]\n")),
        (
            shell("set -e\ncp a $HOME\n"),
            shell("set -e\ncat <<END\n$HOME\nEND\necho '$HOME' \"a\n$HOME b\" ${HOME:+-x} $N\n"),
        ),
    ],
    "CMB501": [
        (
            Example({"env": {"CM_X_URL": URL}}),
            Example({"env": {"CM_X_URL": URL, "CM_X_CHECKSUM": "1"}}),
        ),
        (
            Example(dep("get,y", env={"CM_DOWNLOAD_URL": URL})),
            Example(dep("get,y", env={"CM_DOWNLOAD_URL": "https://host/page"})),
        ),
    ],
    "CMB601": [(Example(without=("README.md",)), Example())],
    "CMB701": [
        (
            Example(files={"customize.py": "from zoo import units\n"}),
            Example({"uses": ["zoo.units"]}, {"customize.py": "from zoo import units\n"}),
        ),
        (
            Example({"uses": ["zoo.other"]}, {"run.sh": "set -e\npython3 -m zoo.units\n"}),
            Example({"uses": ["zoo"]}, {"run.sh": "set -e\npython3 -m zoo.units\n"}),
        ),
        (
            Example({"uses": ["zoo.other"]}, {"run.sh": 'python3 -m "zoo.units.$X"\n'}),
            Example({"uses": ["zoo.units"]}, {"run.sh": 'python3 -m "zoo.units.$X"\n'}),
        ),
        (
            Example({"uses": ["zoo.other"]}, {"run.sh": "python3 -c 'from zoo import units'\n"}),
            Example({"uses": ["zoo.units"]}, {"run.sh": "python3 - <<E\nimport zoo.units\nE\n"}),
        ),
        (
            Example({"uses": ["zoo.gone"]}),
            Example({"uses": ["./lib/zoo/units"]}, {"customize.py": "import zoo.units as u\n"}),
        ),
    ],
    "CMB703": [
        (
            Example({"uses": ["./lib/zoo"]}, {"../../lib/random.py": ""}),
            Example({"uses": ["./lib/zoo"]}, {"customize.py": "import zoo.units\n"}),
        ),
    ],
    "CMB702": [
        (
            Example({"uses": ["zoo.units", "zoo.other"]}, {"customize.py": "import zoo.units\n"}),
            Example({"uses": ["zoo.units"]}, {"customize.py": "import zoo.units\n"}),
        ),
    ],
    "CMB602": [(Example(without=("detection_test.yaml",)), Example())],
}


def test_every_check_has_its_examples() -> None:
    assert set(EXAMPLES) == set(REGISTRY)


@pytest.mark.parametrize(
    ("number", "bad", "good"),
    [(n, bad, good) for n, pairs in EXAMPLES.items() for bad, good in pairs],
)
def test_the_bad_is_found_and_the_good_is_not(
    number: str, bad: Example, good: Example, tmp_path: Path
) -> None:
    found = faults(tmp_path / "bad", bad, number)
    assert {fault.number for fault in found} == {number}
    assert all(fault.line > 0 and fault.message for fault in found)
    assert faults(tmp_path / "good", good, number) == []


def test_a_script_without_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, Example()) == []


@pytest.mark.parametrize(
    ("example", "name", "line", "text"),
    [
        (Example({"new_env_key": []}), "meta.yaml", 10, 'did you mean "new_env_keys"'),
        (Example({"variations": {"r1.2": {"evn": 1}}}), "meta.yaml", 12, "variations.r1.2.evn"),
        (Example(dep("get,y") | {"post_deps": [{"tags": "no"}]}), "meta.yaml", 13, '"no"'),
        (shell("set -e\n\nrm $X_FILE\n"), "run.sh", 3, '"$X_FILE"'),
    ],
)
def test_a_fault_is_reported_with_its_line(
    example: Example, name: str, line: int, text: str, tmp_path: Path
) -> None:
    (fault,) = faults(tmp_path, example)
    assert (Path(fault.path).name, fault.line) == (name, line)
    assert str(fault).startswith(f"{fault.path}:{line}: {fault.number} ")
    assert text in fault.message


@pytest.mark.parametrize(("text", "line"), [("alias: [x\n", 2), ("- 1\n", 1)])
def test_a_file_that_cannot_be_read_is_a_fault(text: str, line: int, tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, Example(files={"meta.yaml": text}))
    assert (fault.number, fault.line) == ("CMB100", line)


def test_lines_of_keys_with_dots_and_beyond_the_end() -> None:
    node = yaml.compose("a.b: 1\na:\n  b: 2\nc:\n- d: 3\n")
    places = {"a.b": 1, "a": 2, "c[0].d": 5, "c[7].d": 4, "none": 1, "a.x": 2}
    assert {where: line_of(node, where) for where in places} == places
    assert line_of(None, "a") == 1


def test_checks_are_chosen_by_the_beginning_of_their_number() -> None:
    assert {c.number[:4] for c in choose_checks(REGISTRY, "CMB3,cmb4")} == {"CMB3", "CMB4"}
    assert "CMB401" not in {c.number for c in choose_checks(REGISTRY, "", "CMB401")}
    with pytest.raises(Error, match="CMB9"):
        choose_checks(REGISTRY, "CMB9")


UNORDERED = """\
# about the whole file
tags: [get, x]
# where it belongs
category: c
name: The thing x

# the result stays
cache: true
alias: get-x
uid: 0123456789abcdef
automation_alias: script
automation_uid: 5b4e0237da074764

env:
  CM_A: 1 # one

  CM_B: 2
"""
ORDERED = """\
# about the whole file
alias: get-x
uid: 0123456789abcdef
automation_alias: script
automation_uid: 5b4e0237da074764

name: The thing x
# where it belongs
category: c

tags: [get, x]

# the result stays
cache: true

env:
  CM_A: 1 # one

  CM_B: 2
"""


def test_corrections_keep_meaning_and_comments(tmp_path: Path) -> None:
    path = Example(files={"meta.yaml": UNORDERED}).write(tmp_path)
    index, checks = index_of(tmp_path), choose_checks(REGISTRY)
    assert [f.number for f in lint(str(path), index, checks)] == ["CMB105", "CMB103"]
    assert all(f.fixable for f in lint(str(path), index, checks))
    assert fix(str(path), index, checks)
    assert (path / "meta.yaml").read_text() == SCHEMA + ORDERED
    assert not fix(str(path), index, checks)
    assert lint(str(path), index, checks) == []


def test_what_has_no_safe_correction_is_left(tmp_path: Path) -> None:
    path = Example({"new_env_key": []}).write(tmp_path)
    before = (path / "meta.yaml").read_text()
    assert not fix(str(path), index_of(tmp_path), choose_checks(REGISTRY))
    assert (path / "meta.yaml").read_text() == before
    (path / "meta.yaml").rename(path / "meta.json")
    assert not fix(str(path), index_of(tmp_path), choose_checks(REGISTRY))


def test_a_key_that_a_shared_hook_sets_is_written(tmp_path: Path) -> None:
    files = {"customize.py": "from zoo import datasets\npostprocess = datasets.run\n"}
    meta = {"new_env_keys": ["CM_SHARED_KEY"], "uses": ["zoo.datasets"]}
    path = Example(meta, files).write(tmp_path)
    (tmp_path / "lib/zoo").mkdir(parents=True)
    (tmp_path / "lib/zoo/datasets.py").write_text("")
    checks = [check for check in choose_checks(REGISTRY) if check.number == "CMB203"]
    assert [f.number for f in lint(str(path), index_of(tmp_path), checks)] == ["CMB203"]
    (tmp_path / "lib/zoo/datasets.py").write_text('env["CM_SHARED_KEY"] = "1"\n')
    assert lint(str(path), index_of(tmp_path), checks) == []
