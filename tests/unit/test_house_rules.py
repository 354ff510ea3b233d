"""Rules of this house that no general tool checks: layers, sizes, words, script habits."""

from __future__ import annotations

import ast
import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cmbench.format.schema import KEY_ORDER
from support import LIB, ROOT, project_files, python_env, run, statements

ENGINE = ROOT / "automation" / "cmbench"

MODULE_LINES = 600
FUNCTION_LINES = 80
ADAPTER_LINES = 150
COMPLEXITY = 10

# `cm version` must not pay for what only a download or a progress bar needs.
HEAVY = ("requests", "rich", "jsonschema", "urllib.request", "asyncio", "numpy")

# Places outside the project and hosts that a mirror may replace. In pieces: this file must pass.
FORBIDDEN = (
    ".." + "/shared",
    "/wo" + "rk/",
    "pypi" + ".org",
    "python" + "hosted.org",
    "npmjs" + ".org",
    "deb." + "debian.org",
)

DEPENDENCY_KEYS = ("deps", "prehook_deps", "posthook_deps", "post_deps")
INPUT_TYPES = {"str", "int", "float", "bool", "path"}

SOURCES = [path for path in project_files() if path.suffix == ".py"]
SCRIPTS = sorted({path.parent for path in (ROOT / "script").glob("*/meta.yaml")})
METAS: dict[str, dict[str, Any]] = {
    script.name: yaml.safe_load((script / "meta.yaml").read_text(encoding="utf-8"))
    for script in SCRIPTS
}

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


# ---------------------------------------------------------------- imports


LINT_IMPORTS = (str(Path(sys.executable).with_name("lint-imports")), "--no-cache")


def test_import_contracts_are_kept() -> None:
    run([*LINT_IMPORTS], cwd=ROOT, env=python_env(LIB)).ok()


PATH_LINES = 25
"""Lines of Python and shell that name the module search path; only ever lowered."""


def test_search_paths_are_set_in_few_lines() -> None:
    """Use ``common.python_path``; ``cmbench`` adds ``lib``, and few programs stand alone."""
    names = re.compile("sys" + r"\.path|PYTHON" + "PATH")
    late = "noqa: E4" + "02"
    texts = {
        relative(path): path.read_text(encoding="utf-8")
        for path in project_files()
        if path.suffix in (".py", ".sh")
    }
    assert not [name for name, text in texts.items() if late in text], "import at the top"
    lines = {
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        for name, text in texts.items()
        for match in names.finditer(text)
    }
    assert len(lines) <= PATH_LINES, "\n".join(sorted(lines))


def imported_modules(node: ast.AST) -> Iterator[str]:
    """Full dotted names that an absolute import statement reaches."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_words_of_the_rules_are_compared_by_their_types() -> None:
    """A branch on a scenario, a division or a category asks the catalogue's type."""
    words = {"SingleStream", "MultiStream", "Server", "Interactive", "Offline"}
    words |= {"closed", "edge", "datacenter"}
    # To parse all modules would take seconds.
    quoted = re.compile(rf"""["']({"|".join(words)})["']""")
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in ("automation", "lib", "script")
        # The engine knows nothing of MLPerf: what it is told to look for are words to it.
        and not path.is_relative_to(ENGINE)
        and quoted.search(path.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and constant.value in words
    ]
    assert not found, "use mlperf.catalog's Scenario, Division, Category: " + ", ".join(found)


def test_programs_import_nothing_of_the_engine() -> None:
    """Those of libraries have a contract of their own."""
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for path in (ROOT / "script").glob("*/src/**/*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(name.split(".")[0] == "cmbench" for name in imported_modules(node))
    ]
    assert not wrong, "another interpreter runs this code: " + ", ".join(wrong)


def test_nothing_below_the_command_line_prints() -> None:
    rooms = (ENGINE / "cli", ENGINE / "render")
    # A question of a script, and the log of a foreign dialect, go to standard error as they come.
    asks = {"run/step.py", "run/mlc_modules.py"}
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in sorted(ENGINE.rglob("*.py"))
        if not any(path.is_relative_to(room) for room in rooms)
        and path.relative_to(ENGINE).as_posix() not in asks
        and re.search(r"\b(print|input)\(", path.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "input")
    ]
    assert not found, "return a value or tell an event: " + ", ".join(found)


def test_wrapped_text_parts_no_name_flag_or_path() -> None:
    whole = {"break_long_words", "break_on_hyphens"}
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if "textwrap" in path.read_text(encoding="utf-8")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) in ("textwrap.wrap", "textwrap.fill", "textwrap.TextWrapper")
        and whole - {word.arg for word in node.keywords if ast.unparse(word.value) == "False"}
    ]
    assert not found, "use common.text, or set both to False: " + ", ".join(found)


def test_the_command_line_starts_without_heavy_modules() -> None:
    code = (
        "import sys; import cmbench.cli.dispatch;"
        f" print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    # Without what ``.pth`` files import on their own.
    done = run([sys.executable, "-S", "-c", code], env=python_env())
    assert done.ok().stdout.strip() == "[]"


# ---------------------------------------------------------------- sizes


def test_modules_are_short() -> None:
    lines = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCES
        if not path.is_relative_to(ROOT / "tests")
    }
    assert not {name: count for name, count in lines.items() if count > MODULE_LINES}


def test_functions_are_short() -> None:
    long = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in statements(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_functions_are_simple() -> None:
    done = run(
        [
            *(sys.executable, "-m", "ruff", "check", "--isolated", "--output-format=concise"),
            *("--select=C901", f"--config=lint.mccabe.max-complexity={COMPLEXITY}"),
            *(str(path) for path in SOURCES),
        ]
    )
    done.ok()


@pytest.mark.parametrize("path", sorted((ROOT / "automation").glob("*/module.py")), ids=relative)
def test_automations_for_cmind_stay_thin(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= ADAPTER_LINES


# ---------------------------------------------------------------- words


def mirror_hosts() -> set[str]:
    """Hosts of package indexes that this machine is set up to use, in the common variables."""
    names = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "npm_config_registry")
    addresses = " ".join(os.environ.get(name, "") for name in names).split()
    hosts = {urlsplit(address).hostname or "" for address in addresses}
    return hosts - {"", "localhost", "127.0.0.1"}


def test_files_name_no_place_outside_the_project() -> None:
    words = re.compile("|".join(re.escape(word) for word in {*FORBIDDEN, *mirror_hosts()}))
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [
            f"{relative(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
            for match in words.finditer(text)
        ]
    assert not found, "\n".join(found)


def test_the_picture_of_a_run_has_the_figures_of_the_text() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = re.findall(
        r"^    (?:MLPerf inference: .*|LoadGen .*|\w+ +[\d.]+ .*)$", text, re.MULTILINE
    )
    svg = (ROOT / "docs/site/pictures/benchmark.svg").read_text(encoding="utf-8")
    drawn = {html.unescape(words) for words in re.findall(r">([^<>]+)</text>", svg)}
    cells = {cell for line in quoted for cell in re.split(r"  +", line.strip())}
    assert len(quoted) == 6
    assert cells - drawn == set()


def test_hooks_call_targets_of_the_makefile() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    targets = re.findall(
        r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert entries
    assert {entry.removeprefix("make ") for entry in entries} <= set(targets)


# ---------------------------------------------------------------- scripts


def dependencies(block: Any) -> Iterator[dict[str, Any]]:
    """Every dependency entry in a meta file, those of its variations and versions included."""
    if isinstance(block, dict):
        for key, value in block.items():
            if key in DEPENDENCY_KEYS:
                yield from value
            else:
                yield from dependencies(value)
    elif isinstance(block, list):
        for value in block:
            yield from dependencies(value)


def offers(meta: dict[str, Any], variation: str) -> bool:
    """Whether the script has that variation, or a dynamic one (``name.#``) that it fills in."""
    known = meta.get("variations") or {}
    return variation in known or f"{variation.partition('.')[0]}.#" in known


def resolves(tags: list[str]) -> bool:
    wanted = {tag for tag in tags if not tag.startswith(("_", "-"))}
    variations = [tag[1:] for tag in tags if tag.startswith("_")]
    return any(
        wanted <= set(meta["tags"]) and all(offers(meta, name) for name in variations)
        for meta in METAS.values()
    )


def test_identities_are_unique() -> None:
    uids = [meta["uid"] for meta in METAS.values()]
    assert len(uids) == len(set(uids))
    tag_sets = [frozenset(meta["tags"]) for meta in METAS.values()]
    assert len(tag_sets) == len(set(tag_sets))


@each_script
def test_meta_has_its_identity(script: Path) -> None:
    meta = METAS[script.name]
    assert meta["alias"] == script.name
    assert isinstance(meta["uid"], str), "quote a uid that is all digits"
    assert re.fullmatch("[0-9a-f]{16}", meta["uid"])
    assert (meta["automation_alias"], meta["automation_uid"]) == ("script", "5b4e0237da074764")
    assert meta["name"]
    assert meta["tags"]


@each_script
def test_meta_keys_stand_in_the_house_order(script: Path) -> None:
    keys = list(METAS[script.name])
    assert not set(keys) - set(KEY_ORDER), (
        "a key that cmbench.format.schema.KEY_ORDER does not know"
    )
    assert keys == [key for key in KEY_ORDER if key in keys]


@each_script
def test_every_input_is_described(script: Path) -> None:
    meta = METAS[script.name]
    mapped = meta.get("input_mapping") or {}
    described = meta.get("input_description") or {}
    assert set(mapped) == set(described)
    for name, about in described.items():
        assert about.get("desc"), name
        assert about.get("type") in INPUT_TYPES, name


@each_script
def test_every_dependency_names_a_script_of_ours(script: Path) -> None:
    lost = [
        entry["tags"]
        for entry in dependencies(METAS[script.name])
        if "<<<" not in entry.get("tags", "")
        and entry.get("tags")
        and not resolves([tag.strip() for tag in entry["tags"].split(",")])
    ]
    assert not lost, lost


@each_script
def test_every_script_has_its_page(script: Path) -> None:
    assert (script / "README.md").is_file()


def test_no_default_of_a_variation_is_overruled_by_its_script() -> None:
    """The defaults of a script are laid first: a variation's default for such a key does nothing.

    ``_full`` had one, so it never meant a full run.
    """
    idle = []
    for meta in METAS.values():
        own = set(meta.get("default_env") or ())
        for name, block in (meta.get("variations") or {}).items():
            keys = own & set((block or {}).get("default_env") or ())
            idle += [f"{meta['alias']},_{name}: {key}" for key in sorted(keys)]
    assert not idle
