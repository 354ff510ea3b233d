"""Builds cmbench; everything that is data stands in pyproject.toml.

Two things need code. An installed cmbench is also a CM repository: cmind registers every installed
package whose name starts with ``cm`` and that holds ``repo/cmr.yaml``, so the repository (its
description, the thin automations, the libraries and the scripts) is copied to ``cmbench/repo/``.
And the extra ``crowd-server`` is a distribution of its own: in a checkout, the one in its folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

ROOT = Path(__file__).resolve().parent
CROWD_SERVER = ROOT / "automation/cmbench_crowd_server"
CHECKOUT_ONLY = shutil.ignore_patterns("__pycache__", "*.py[cod]", "tests", "tmp-*", ".*")


class MetadataOfCheckout(egg_info):
    """Writes the metadata, with the extra ``crowd-server`` as the folder of this checkout."""

    def run(self) -> None:
        """Leave the extra as it is in a source distribution: its server is published too."""
        if not (ROOT / "PKG-INFO").exists():
            requirement = f"cmbench-crowd-server @ {CROWD_SERVER.as_uri()}"
            self.distribution.extras_require["crowd-server"] = [requirement]
        super().run()


class BuildWithRepository(build_py):
    """Builds the package, and in it the CM repository."""

    def run(self) -> None:
        """Copy the scripts beside the package, except for an editable install."""
        # An editable install uses the checkout itself, which its owner registers with
        # `cm init repo`: a copy beside it would offer every script twice.
        if self.editable_mode:
            super().run()
            return
        package = Path(self.build_lib, "cmbench")
        # What an earlier build left, a script that is gone since, say, would be packed again.
        shutil.rmtree(package, ignore_errors=True)
        super().run()
        copy_repository(package / "repo")


def copy_repository(target: Path) -> None:
    """Write the CM repository of this checkout to the directory ``target``."""
    automations = [path.parent.name for path in ROOT.glob("automation/*/_cm.json")]
    for folder in (*(f"automation/{name}" for name in automations), "lib", "script"):
        shutil.copytree(ROOT / folder, target / folder, ignore=CHECKOUT_ONLY)
    shutil.copy(ROOT / "automation/entry.py", target / "automation")
    # `cm pull repo` without a name updates each repository marked `git` by running git in it; in
    # an installed package that would reach a repository of somebody else around it.
    lines = (ROOT / "cmr.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("git:"))
    (target / "cmr.yaml").write_text(text, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithRepository, "egg_info": MetadataOfCheckout})
