"""Ask a shared library of a vendor for its version, in a process of its own.

Such a library may crash where its device is missing, and may start threads or write to the terminal
when it is loaded: nothing of that reaches the process that asks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping

from cmbench.lib.elf import machine_misfit
from cmbench.lib.probe import probe

_PROGRAM = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
found = {}
for name, how in json.loads(sys.argv[2]).items():
    function = getattr(library, name, None)
    if function is None:
        continue
    if how == "into":
        value = ctypes.c_int()
        found[name] = 0 if function(ctypes.byref(value)) else value.value
    else:
        function.restype = ctypes.c_size_t if how == "size" else ctypes.c_int
        found[name] = function()
print("@" + json.dumps(found))
"""


def ask_library(
    path: str, functions: Mapping[str, str], folders: tuple[str, ...] = ()
) -> tuple[dict[str, int], str]:
    """What each of the functions gives, and why none is known; one of both is empty.

    ``functions`` has for every name how its number is passed: ``int`` or ``size`` (it is returned)
    or ``into`` (it is put where the argument points). One that the library lacks is left out.
    ``folders`` is where libraries that it needs are.
    """
    # The loader says of a library for another processor that there is no such file.
    if misfit := machine_misfit(path):
        return {}, misfit
    words = [sys.executable, "-I", "-c", _PROGRAM, path, json.dumps(dict(functions))]
    answer = probe(words, timeout=60, env={"LD_LIBRARY_PATH": ":".join(folders)})
    match = re.search(r"^@(\{.*\})$", answer.stdout, re.MULTILINE)
    if match and answer.ok:
        values: dict[str, int] = json.loads(match[1])
        return values, ""
    return {}, f"cannot be loaded: {answer.problem}"


def defines(text: str) -> dict[str, str]:
    """The macros of a C header that stand for a value; one that names another has the other's."""
    pattern = r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S+)"
    macros = dict(re.findall(pattern, text, re.MULTILINE))

    def value(name: str, depth: int = 0) -> str:
        text = macros[name]
        return value(text, depth + 1) if text in macros and depth < 9 else text

    return {name: value(name) for name in macros}


def header_version(text: str, *names: str) -> str:
    """The version that a header defines by these macros, with dots; empty if one is missing."""
    known = defines(text)
    parts = [known.get(name, "") for name in names]
    return ".".join(parts) if all(part.isdigit() for part in parts) else ""
