"""Wheels that are built for a CUDA, and the driver that they need, before they are fetched."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from cmbench.errors import Error
from cmbench.lib import nvidia
from cmbench.lib.versions import compare, satisfies_pip

DATA = "cuda-builds.yaml"


class CudaBuilds(NamedTuple):
    """Versions of a package from ``oldest`` on that are built for one major version of CUDA.

    ``last`` is the newest of them; empty where no newer CUDA has followed.
    """

    oldest: str
    last: str
    cuda: str

    @property
    def driver(self) -> str:
        """The oldest driver that runs them."""
        return nvidia.least_driver(self.cuda)

    def has_one(self, bounds: str) -> bool:
        """Return whether one of these versions fits bounds as pip writes them."""
        named = (self.oldest, self.last, *re.findall(r"\d[\w.]*", bounds))
        return any(satisfies_pip(version, bounds) for version in named if self.covers(version))

    def covers(self, version: str) -> bool:
        """Return whether a version is one of these."""
        is_late = bool(self.last) and compare(version, self.last) > 0
        return bool(version) and compare(version, self.oldest) >= 0 and not is_late


def refuse(name: str, bounds: str, driver: nvidia.Driver) -> None:
    """Raise Error where the driver is too old for the wheel that pip would choose.

    A driver that does not work is the matter of the step that looks for a device.
    """
    build = chosen(name, bounds)
    if build is None or driver.problem or not driver.version:
        return
    if compare(driver.version, build.driver) >= 0:
        return
    older = [row for row in builds(name) if compare(driver.version, row.driver) >= 0]
    choose = f"--version_max={older[0].last}, built for CUDA {older[0].cuda}; or " if older else ""
    raise Error(
        "no-driver",
        f"{name}{bounds} is built for CUDA {build.cuda}, which needs driver {build.driver} or "
        f"newer; here is {driver.version}",
        hint=f"{choose}update the driver, or use a Python that has a build for it",
    )


def chosen(name: str, bounds: str) -> CudaBuilds | None:
    """Return the build that pip would choose; None for one that is not known."""
    return next((build for build in builds(name) if build.has_one(bounds)), None)


def builds(name: str) -> Sequence[CudaBuilds]:
    """Return the builds of a package on PyPI, the newest first; empty for one without CUDA."""
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), DATA)
    with open(path, encoding="utf-8") as stream:
        rows = yaml.safe_load(stream).get(name, ())
    return [CudaBuilds(row["from"], row.get("last", ""), str(row["cuda"])) for row in rows]
