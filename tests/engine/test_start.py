"""What a command loads before it does anything: most of the time of a short run is that.

The limits only go down. Unlike seconds, they do not depend on the host.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from lab import Lab
from support import AUTOMATION, ROOT, python_env

MODULES = {"plain": 73, "cached": 73, "detect,os": 78}
"""Modules of the engine in a run of one script, in one with a dependency from the cache, and in one
whose hooks are observed.

They were 66 before the classes of the resolver, the scheduler and the store were cut.
"""
SLOW = {
    *("dataclasses", "pathlib", "shutil", "subprocess", "urllib.parse", "fnmatch"),
    *("rich", "psutil", "concurrent.futures", "asyncio", "ssl", "http.client", "hashlib"),
}
"""Modules that take long to load, and that no such run needs beyond what cmind has loaded."""
_LOADED = """
import json, sys
import cmind
assert cmind.access({"action": "version"})["return"] == 0
before = set(sys.modules)
answer = cmind.access({"action": "run", "automation": "script", "tags": sys.argv[1]})
assert answer["return"] == 0, answer
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture
def home(lab: Lab) -> Mapping[str, str]:
    """The environment of a home with a script alone, and one with a dependency to be cached."""
    lab.script("plain", customize="def preprocess(i):\n    return {'return': 0}\n")
    lab.script("kept", cache=True, env={"CM_KEPT": "yes"}, new_env_keys=["CM_KEPT"])
    lab.script("cached", deps=[{"tags": "kept"}])
    lab.repo.joinpath("cmr.yaml").write_text("alias: lab\nuid: c0ffee0123456789\n")
    lab.home.joinpath("repos.json").write_text(json.dumps([str(ROOT), str(lab.repo)]))
    home = {"CM_REPOS": str(lab.home), "CM_CORE_SKIP_INTERNAL_REPOS": "yes"}
    # Where nothing is compiled, the folder of the script is not changed by the first run.
    home["PYTHONDONTWRITEBYTECODE"] = ""
    return python_env(AUTOMATION) | home


def loaded(tags: str, home: Mapping[str, str]) -> set[str]:
    """The modules that a run of ``tags`` loads beyond those of ``cm version``."""
    command = [sys.executable, "-c", _LOADED, tags]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("tags", MODULES)
def test_a_run_loads_no_more_modules_than_it_needs(tags: str, home: Mapping[str, str]) -> None:
    # The first run fills the index and the cache.
    loaded(tags, home)
    found = loaded(tags, home)
    own = sorted(name for name in found if name.partition(".")[0] == "cmbench")
    assert len(own) <= MODULES[tags], own
    assert not found & SLOW
