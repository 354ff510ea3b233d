"""The way of one command through the engine: how many functions, calls, modules, module switches.

Runs a script twice in a home of its own, first made, then from the cache, and counts every call of
a function of the engine. A switch is a call from one module of the engine to another one. The
figures are the same on every machine, unlike seconds, and tell how far a reader has to go. What is
called while a module is imported does not count.

    python benchmarks/engine_walk.py
    python benchmarks/engine_walk.py --tags=get,sys-utils-cm --root=/path/of/another/checkout
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from library_env import library_env

ROOT = Path(__file__).resolve().parents[1]

_COUNTED = """
import collections, contextlib, io, json, os, sys
engine = sys.argv[1] + os.sep
import cmind
ends = lambda code: code.co_filename.startswith(engine)
name = lambda code: code.co_filename + ":" + code.co_name + str(code.co_firstlineno)
calls, modules, switches = collections.Counter(), collections.Counter(), [0]

def seen(frame, event, argument):
    if event != "call" or not ends(frame.f_code):
        return
    above, code = frame, frame.f_code
    caller = None
    while above is not None:
        if ends(above.f_code):
            if above.f_code.co_name == "<module>":
                return
            if above is not frame and caller is None:
                caller = above.f_code.co_filename
        above = above.f_back
    calls[name(code)] += 1
    modules[code.co_filename] += 1
    switches[0] += caller is not None and caller != code.co_filename

request = {"action": "run", "automation": "script", "tags": sys.argv[2]}
request |= {"quiet": True, "out": "con"}
with contextlib.redirect_stdout(io.StringIO()):
    sys.setprofile(seen)
    answer = cmind.access(request)
    sys.setprofile(None)
assert answer["return"] == 0, answer
found = {"functions": len(calls), "calls": sum(calls.values()), "modules": len(modules)}
print(json.dumps({**found, "switches": switches[0]}))
"""


def walked(root: Path, tags: str, home: Path) -> dict[str, int]:
    """What one run of ``tags`` with the engine of the checkout ``root`` comes by."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CM")}
    env |= {"CM_REPOS": str(home / "CM"), "CM_CORE_SKIP_INTERNAL_REPOS": "yes", "HOME": str(home)}
    engine = str(root / "automation" / "cmbench")
    done = subprocess.run(
        [sys.executable, "-c", _COUNTED, engine, tags],
        cwd=home,
        env=library_env(root / "automation", base=env),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Print a row for the run that makes the entry, and one for the run that finds it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tags", default="get,python3", help="the script (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout (default: this one)")
    options = parser.parse_args()
    root = options.root.resolve()
    with tempfile.TemporaryDirectory(prefix="cmbench-walk-") as folder:
        home = Path(folder)
        home.joinpath("CM").mkdir()
        home.joinpath("CM", "repos.json").write_text(json.dumps([str(root)]))
        # The first run fills the index, which is no part of the way.
        walked(root, "detect,os", home)
        for title in ("made", "cached"):
            row = walked(root, options.tags, home)
            print(f"{title:<8}" + "".join(f"{row[key]:>8} {key}" for key in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
