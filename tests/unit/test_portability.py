"""What the files of an entry need of a machine is found in them."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest

from cmbench.cache.portability import (
    HostPlatform,
    PlatformRequirements,
    misfit,
    needs_of,
    this_host,
)

ROOT = "/home/me/CM/cmbench/v1"


def elf(machine: int, order: str = "<", symbols: bytes = b"") -> bytes:
    ident = b"\x7fELF" + bytes([2, 1 if order == "<" else 2]) + bytes(10)
    return ident + struct.pack(order + "HH", 3, machine) + bytes(44) + symbols


def test_programs_say_their_cpu_and_the_newest_symbol_their_glibc(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(elf(183, symbols=b"\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0"))
    found = needs_of(str(tmp_path), ROOT)
    assert found == PlatformRequirements(cpus=("aarch64",), glibc="2.34")
    machine = HostPlatform("x86_64", "2.36", ("3.11",))
    assert "are for aarch64" in misfit(found, machine)
    assert misfit(found, HostPlatform("aarch64", "2.34", ())) == ""
    assert "need glibc 2.34, here is 2.31" in misfit(found, HostPlatform("aarch64", "2.31", ()))
    assert "here is none" in misfit(found, HostPlatform("aarch64", "", ()))


def test_a_folder_for_several_fits_each_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(elf(62))
    (tmp_path / "b.so").write_bytes(elf(22, ">"))
    found = needs_of(str(tmp_path), ROOT)
    assert found.cpus == ("s390x", "x86_64")
    assert misfit(found, HostPlatform("x86_64", "2.36", ("3.11",))) == ""


def test_modules_of_one_python(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "python3.9" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "plain.py").write_text("")
    (tmp_path / "fast.cpython-312-x86_64-linux-gnu.so").write_bytes(elf(62))
    (tmp_path / "any.abi3.so").write_bytes(elf(62))
    found = needs_of(str(tmp_path), ROOT)
    assert found.pythons == ("3.12", "3.9")
    assert "Python 3.12, 3.9, here is 3.11" in misfit(found, HostPlatform("x86_64", "2", ("3.11",)))


def test_a_path_of_its_own_place_stays_there(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text(f"home = {ROOT}/store/x\n")
    found = needs_of(str(tmp_path), ROOT)
    assert "contain the path where it was made" in misfit(found, this_host(), "/elsewhere")
    assert misfit(found, this_host(), ROOT) == ""


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\2\1", b"text", bytes(5000)])
def test_odd_files_need_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert needs_of(str(tmp_path), ROOT) == PlatformRequirements()


@pytest.mark.skipif(sys.platform != "linux", reason="programs of other systems are no ELF files")
def test_a_program_of_this_machine_fits_it(tmp_path: Path) -> None:
    shutil.copy(sys.executable, tmp_path / "python")
    found = needs_of(str(tmp_path), ROOT)
    assert found.cpus == (this_host().cpu,)
    assert misfit(found, this_host()) == ""
