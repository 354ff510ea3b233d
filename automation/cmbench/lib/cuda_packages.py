"""Installed packages that compute on a GPU: their CUDA, and its libraries, before a run.

What does not fit would else be seen when a model is opened, after everything was prepared.
Not verified on hardware.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from cmbench.errors import Error
from cmbench.lib import cuda_builds, nvidia, pythons
from cmbench.lib.cuda import toolkit_folders
from cmbench.lib.elf import needed_libraries
from cmbench.lib.host.system import os_facts
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.versions import compare

TORCH, ONNX_RUNTIME = "torch", "onnxruntime-gpu"
PROVIDER = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
OF_CUDA = re.compile(r"lib(cudart|cublas|cublasLt|cufft|curand|cudnn|nvrtc)\.so\.(\d+)")
NUMBERED_AS_CUDA = ("cudart", "cublas", "cublasLt", "nvrtc")
"""Libraries whose major version is that of CUDA."""
OF_TORCH = re.compile(r"^cuda\b[^=\n]*=\s*(?:'([\d.]+)'|None)", re.MULTILINE)
CUDNN_OF_CUDA = {"11": "8", "12": "9", "13": "9"}
"""The major version of cuDNN that ONNX Runtime is built with for a CUDA: its page on CUDA."""
OTHER_PYTHON = "or use a Python that has it (--python=PATH)"


class CudaPackage(NamedTuple):
    """A package as it is installed, the CUDA that it was built for, and what it needs of that.

    ``cuda`` is empty for a build without CUDA, None where that is not known.
    """

    name: str
    version: str
    folder: str
    cuda: str | None
    libraries: tuple[str, ...] = ()


def refuse(python: str, names: Iterable[str], driver: nvidia.Driver) -> None:
    """Raise Error where a package of ``python`` cannot compute on this machine's GPU."""
    seen = pythons.packages(python)
    folders = library_folders({package.folder for package in seen.values()}, os.environ)
    for name in names:
        package = seen.get(name)
        if package is not None:
            refuse_package(described(package), folders, driver)


def refuse_wheel(name: str, bounds: str, python: str, driver: nvidia.Driver) -> None:
    """Raise Error where a wheel that pip would fetch lacks what it needs here.

    PyTorch brings CUDA's libraries along. Nothing is said of a machine without a driver.
    """
    cuda_builds.refuse(name, bounds, driver)
    build = cuda_builds.chosen(name, bounds)
    if name != ONNX_RUNTIME or build is None or driver.problem or not driver.version:
        return
    sites = {package.folder for package in pythons.packages(python).values()} if python else set()
    needs = (f"libcublasLt.so.{build.cuda}", f"libcudnn.so.{CUDNN_OF_CUDA[build.cuda]}")
    package = CudaPackage(name, bounds, "the index", build.cuda, needs)
    refuse_package(package, library_folders(sites, os.environ), driver)


def described(package: pythons.InstalledVersion) -> CudaPackage:
    """Return what the files of a package say of its CUDA."""
    name = pythons.normal_name(package.name)
    facts = (name, package.version, package.folder)
    if name == TORCH:
        match = OF_TORCH.search(read_or_empty(os.path.join(package.folder, "torch/version.py")))
        return CudaPackage(*facts, (match[1] or "") if match else None)
    needed = [
        library
        for library in needed_libraries(os.path.join(package.folder, PROVIDER))
        if OF_CUDA.fullmatch(library)
    ]
    return CudaPackage(*facts, cuda_of(needed), tuple(needed))


def cuda_of(libraries: Iterable[str]) -> str | None:
    """Return the major version of CUDA that libraries belong to; None where none tells it."""
    matches = [match for name in libraries if (match := OF_CUDA.fullmatch(name))]
    return next((match[2] for match in matches if match[1] in NUMBERED_AS_CUDA), None)


def library_folders(sites: Iterable[str], environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which CUDA's libraries are found: of packages, toolkits, the system."""
    of_packages = [
        folder
        for site in sorted(sites)
        for folder in (*sorted(Path(site).glob("nvidia/*/lib")), Path(site, "torch/lib"))
    ]
    below = ("lib64", "lib", "targets/*/lib")
    of_toolkits = [
        folder
        for toolkit in toolkit_folders(environ)
        for pattern in below
        for folder in Path(toolkit).glob(pattern)
    ]
    named = [f for f in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(f)]
    return [*of_packages, *map(Path, named), *of_toolkits, *map(Path, os_facts().library_folders)]


def refuse_package(package: CudaPackage, folders: Iterable[Path], driver: nvidia.Driver) -> None:
    """Raise Error for a build without CUDA, a driver that is too old, or missing libraries."""
    at = f"{package.name} {package.version}".strip() + f" of {package.folder}"
    if package.cuda == "":
        text = f"--device=cuda: {at} was built without CUDA"
        raise Error("not-available", text, hint=f"install a build with CUDA, {OTHER_PYTHON}")
    if not package.cuda:
        return
    _refuse_driver(package, at, driver)
    places = list(folders)
    missing = [name for name in package.libraries if not _is_in(name, places)]
    if missing:
        raise Error(
            "not-detected",
            f"--device=cuda: {at} was built for CUDA {package.cuda}, and needs "
            f"{', '.join(missing)}, in no folder that was searched",
            hint=_remedy(package, missing, places),
        )


def _refuse_driver(package: CudaPackage, at: str, driver: nvidia.Driver) -> None:
    least = nvidia.least_driver(str(package.cuda))
    if driver.problem or not (driver.version and least):
        return
    if compare(driver.version, least) >= 0:
        return
    raise Error(
        "no-driver",
        f"{at} was built for CUDA {package.cuda}, which needs driver {least} or newer; "
        f"here is {driver.version}",
        hint=f"update the driver, take a build for an older CUDA, {OTHER_PYTHON}",
    )


def _is_in(name: str, folders: Iterable[Path]) -> bool:
    return any((folder / name).exists() for folder in folders)


def _remedy(package: CudaPackage, missing: Iterable[str], folders: Iterable[Path]) -> str:
    """Return what to do: the libraries as packages, or the build for a CUDA that is here."""
    major = str(package.cuda).partition(".")[0]
    if all(name.startswith("libcudnn") for name in missing):
        return f"install cuDNN, as nvidia-cudnn-cu{major} into the same Python, {OTHER_PYTHON}"
    ways = f"--backend=pytorch, which brings CUDA along, {OTHER_PYTHON}: {package.name}[cuda,cudnn]"
    places = list(folders)
    for build in cuda_builds.builds(package.name):
        if build.cuda != major and build.last and _is_in(f"libcublasLt.so.{build.cuda}", places):
            older = f"--adr.{package.name}.version_max={build.last}"
            return f"{older}, built for CUDA {build.cuda}, which is here; {ways}"
    return f"install CUDA {major} and cuDNN; {ways}"
