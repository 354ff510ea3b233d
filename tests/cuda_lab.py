"""What tests of NVIDIA's software make: compilers, libraries and archives of its layouts.

None of it is NVIDIA's: libraries are compiled on the spot, and know the functions that are asked.
"""

from __future__ import annotations

import io
import struct
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cmbench.lib.probe import which
from steps import tool

CUDNN_ARCHIVE = "cudnn-linux-x86_64-8.7.0.84_cuda11-archive.tar.xz"
TENSORRT_ARCHIVE = "TensorRT-8.5.1.7.Linux.x86_64-gnu.cuda-11.8.cudnn8.6.tar.gz"
CUDNN_HEADER = """
#ifndef CUDNN_VERSION_H_
#define CUDNN_MAJOR 8
#define CUDNN_MINOR 7
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)
#endif
"""
PLAIN_HEADER = """
#define NV_TENSORRT_MAJOR 8 //!< TensorRT major version.
#define NV_TENSORRT_MINOR 5 //!< TensorRT minor version.
#define NV_TENSORRT_PATCH 1
#define NV_TENSORRT_BUILD 7
"""
INDIRECT_HEADER = """
#define TRT_MAJOR_ENTERPRISE 10
#define TRT_MINOR_ENTERPRISE 13
#define TRT_PATCH_ENTERPRISE 3
#define TRT_BUILD_ENTERPRISE 9
#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE //!< TensorRT major version.
#define NV_TENSORRT_MINOR TRT_MINOR_ENTERPRISE
#define NV_TENSORRT_PATCH TRT_PATCH_ENTERPRISE
#define NV_TENSORRT_BUILD TRT_BUILD_ENTERPRISE
"""


def nvcc(path: Path, version: str, root: Path | str = "", makes: Path | None = None) -> Path:
    """A compiler of that version; what it makes is a copy of ``makes``."""
    release = ".".join(version.split(".")[:2])
    return tool(
        path,
        f"""case "$1" in
--version|-V) echo "Cuda compilation tools, release {release}, V{version}";;
--dryrun) echo "#$ TOP={root}" >&2;;
*) while [ "$1" != -o ]; do shift; done; cp "{makes}" "$2" || exit 1; echo made >> "{path}.count";;
esac
""",
    )


def library(path: Path, numbers: Mapping[str, str]) -> Path:
    """A shared library with functions of these bodies; skips without a C compiler."""
    compiler = which("gcc") or which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text("\n".join(f"{name} {{ {body} }}" for name, body in numbers.items()))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    source.unlink()
    return path


def cudnn(path: Path, version: int = 8700, cudart: int = 11080, loads: bool = True) -> Path:
    """A library that says that it is cuDNN; it may need what is in no other library."""
    functions = {
        "unsigned long cudnnGetVersion(void)": f"return {version};",
        "unsigned long cudnnGetCudartVersion(void)": f"return {cudart};",
    }
    if not loads:
        functions["extern int of_another; int needs(void)"] = "return of_another;"
    return library(path, functions)


def archive(path: Path, files: Mapping[str, str | bytes | Path]) -> Path:
    """A tar of these files, compressed as its name says."""
    kinds = {".xz": "w:xz", ".gz": "w:gz", ".tgz": "w:gz"}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, kinds.get(path.suffix, "w")) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            data = content.read_bytes() if isinstance(content, Path) else content
            data = data.encode() if isinstance(data, str) else data
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return path


def for_another_processor(path: Path) -> Path:
    """The library with the number of s390x in its ELF header; the order of bytes stays."""
    data = bytearray(path.read_bytes())
    data[18:20] = (22).to_bytes(2, "little")
    path.write_bytes(data)
    return path


def cudnn_archive(
    folder: Path,
    name: str = CUDNN_ARCHIVE,
    header: str = CUDNN_HEADER,
    foreign: bool = False,
    **library: Any,
) -> Path:
    """The archive of guide 004 with small files; ``foreign`` for another processor."""
    top = name.removesuffix(".tar.xz")
    built = cudnn(folder / "libcudnn.so.8.7.0", **library)
    if foreign:
        for_another_processor(built)
    files = {
        f"{top}/LICENSE": "NVIDIA's",
        f"{top}/include/cudnn.h": '#include "cudnn_version.h"\n',
        f"{top}/include/cudnn_version.h": header,
        f"{top}/lib/libcudnn.so.8": built,
    }
    return archive(folder / name, files)


def tensorrt_archive(
    folder: Path,
    name: str = TENSORRT_ARCHIVE,
    header: str = PLAIN_HEADER,
    foreign: bool = False,
) -> Path:
    """The archive of guide 004 with small files, and a module for each of two Pythons.

    ``foreign`` for another processor.
    """
    top = "TensorRT-8.5.1.7"
    parts = {"Major": 8, "Minor": 5, "Patch": 1, "Build": 7}
    built = library(
        folder / "libnvinfer.so.8.5.1",
        {f"int getInferLib{part}Version(void)": f"return {n};" for part, n in parts.items()},
    )
    if foreign:
        for_another_processor(built)
    files: dict[str, str | Path] = {
        f"{top}/bin/trtexec": "#!/bin/sh\n",
        f"{top}/include/NvInferVersion.h": header,
        f"{top}/lib/libnvinfer.so.8": built,
    }
    for tag in ("cp38", "cp39"):
        files[f"{top}/python/tensorrt-8.5.1.7-{tag}-none-linux_x86_64.whl"] = "not a zip"
    return archive(folder / name, files)


def needing(path: Path, names: Sequence[str]) -> Path:
    """A library whose header names others that it needs; nothing else is in it."""
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    starts = [texts.index(name.encode()) for name in names]
    base, dynamic = 0x1000, 64 + 2 * 56
    entries = [(1, start) for start in starts]
    strings = dynamic + 16 * (len(entries) + 2)
    rows = [*entries, (5, base + strings), (0, 0)]
    size = strings + len(texts)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    for kind, offset, length in ((1, 0, size), (2, dynamic, 16 * len(rows))):
        place = base + offset
        head += struct.pack("<IIQQQQQQ", kind, 4, offset, place, place, length, length, 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + b"".join(struct.pack("<QQ", *row) for row in rows) + texts)
    return path
