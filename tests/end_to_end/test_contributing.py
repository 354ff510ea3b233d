"""``CONTRIBUTING.md``, followed to the letter in a clone, from `git clone` to a new script."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from support import REACHES_IN, ROOT, copy_checkout, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]

# All tests would run twice, and the benchmark measures, which needs a quiet host.
LEFT_OUT = ("make test", "python benchmarks/")
# They judge the files of the project, which are the same in a clone, and need no package of it.
OF_THE_TREE = (
    *("test_commands_in_hints", "test_docstrings", "test_error_codes", "test_faces"),
    *("test_names", "test_sizes", "test_tests_of", "test_used_libraries"),
)
FORK = "<your fork>"
QUICK_MB = 300
"""The size of ``.venv`` after ``make quick``; the page names it."""
# What a test run of this checkout sets, and a contributor's terminal does not.
RUNNER = re.compile(r"(CM|COV|MAKE|PYTEST)(_|FLAGS|LEVEL|FILES|$)")


def lines() -> list[str]:
    """Return the indented lines of the page that are typed; the others name paths."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    indented = re.findall(r"(?m)^    (\S.*)$", text)
    return [line for line in indented if re.match(r"[a-z.]+ ", line)]


def terminal(home: Path) -> dict[str, str]:
    """Return the environment of a new terminal whose home folder is ``home``."""
    env = {k: v for k, v in os.environ.items() if not RUNNER.match(k) and k not in REACHES_IN}
    env |= {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@example.org"}
    return env | cheaper(home)


def cheaper(home: Path) -> dict[str, str]:
    """Return variables that spare ``make quick`` what holds for a clone if it does for ROOT.

    mypy begins with what it knows of the same sources, by their hashes.
    """
    known, copy = ROOT / ".mypy_cache", home / "mypy_cache"
    if known.is_dir():
        shutil.copytree(known, copy)
    skipped = " ".join(f"--ignore=tests/unit/{name}.py" for name in OF_THE_TREE)
    return {"MYPY_CACHE_DIR": str(copy), "PYTEST_ADDOPTS": skipped}


def test_contributing(tmp_path: Path) -> None:
    fork, env = copy_checkout(tmp_path / "fork"), terminal(tmp_path)
    run(
        ["bash", "-ec", "git init -q && git add -A && git commit -qm 'The checkout'"],
        cwd=fork,
        env=env,
    ).ok()
    typed = [line.replace(FORK, "fork") for line in lines() if not line.startswith(LEFT_OUT)]
    assert {"make register", "make quick", "cm doc script"} <= set(typed)
    done = run(["bash", "-ec", "\n".join(typed)], cwd=tmp_path, env=env, timeout=1800).ok()
    size = re.search(r"^make quick: .* has (\d+) MB$", done.stdout, re.MULTILINE)
    assert size
    assert int(size[1]) <= QUICK_MB
    assert " 0 failed" in done.stdout
    assert " 0 faults" in done.stdout
    changed = run(["git", "status", "--porcelain"], cwd=tmp_path / "cmbench", env=env).ok().stdout
    assert changed == " M docs/reference/scripts.md\n?? script/get-cmake/\n"
