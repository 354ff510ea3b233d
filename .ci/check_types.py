"""Check the types of everything in one run of mypy: ``python .ci/check_types.py``.

A program of a script runs in the script's folder and imports its neighbours by their bare names;
many scripts have a ``train`` or a ``preprocess``, and one run of mypy knows one module of a name.
So mypy reads copies in which the folder is a package: ``import train`` in ``script/get-x/src`` is
``import get_x.train as train`` there. What lies in the script's folder itself, ``customize.py``
above all, is a module of the same package: ``get_x.customize``. The engine hands it the folder
``hooks`` at run time; its copy imports it. Lines and columns of findings are those of the sources,
but for an import line itself.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from mypy import api

if sys.version_info >= (3, 11):
    import tomllib
else:
    # mypy needs it there.
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
# Beside mypy's cache; a copy that is not changed keeps its time, and what is cached stays valid.
COPIES = ROOT / ".mypy_cache" / "programs"
_IMPORT = re.compile(r"^(\s*)import (\w+)$", re.MULTILINE)
_FROM = re.compile(r"^(\s*)from (\w+) import ", re.MULTILINE)
_HOOKS = re.compile(r'^(\w+) = siblings\.hooks\(__file__, "(\w+)"\)(?:\.(\w+))?$', re.MULTILINE)


def programs() -> dict[Path, str]:
    """The modules outside of a package, and the names of their scripts as packages."""
    paths = [*ROOT.glob("script/*/*.py"), *ROOT.glob("script/*/*/*.py")]
    alone = sorted(path for path in paths if not (path.parent / "__init__.py").is_file())
    return {path: path.relative_to(ROOT).parts[1].replace("-", "_") for path in alone}


def packaged(source: str, packages: dict[str, str]) -> str:
    """``source`` with its imports of bare modules as imports from ``packages``."""

    def whole(found: re.Match[str]) -> str:
        indent, name = found.groups()
        package = packages.get(name)
        return f"{indent}import {package}.{name} as {name}" if package else found[0]

    def part(found: re.Match[str]) -> str:
        indent, name = found.groups()
        package = packages.get(name)
        return f"{indent}from {package}.{name} import " if package else found[0]

    def hooks(found: re.Match[str]) -> str:
        name, module, function = found.groups()
        if function:
            return f"from script.hooks.{module} import {function} as {name}"
        return f"import script.hooks.{module} as {name}"

    return _HOOKS.sub(hooks, _FROM.sub(part, _IMPORT.sub(whole, source)))


def copy_all() -> dict[str, str]:
    """Write the copies; the path of each, to that of its source."""
    modules = programs()
    # Other scripts import what lies in src; elsewhere names are those of packages: onnxruntime.py.
    names = [path.stem for path in modules if path.parent.name == "src"]
    alone = {path.stem: name for path, name in modules.items() if names.count(path.stem) == 1}
    sources = {}
    for path, package in modules.items():
        own = {p.stem: package for p in path.parent.glob("*.py") if p != path}
        copy = COPIES / package / path.name
        text = packaged(path.read_text(encoding="utf-8"), alone | own)
        if not copy.is_file() or copy.read_text(encoding="utf-8") != text:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        sources[str(copy.relative_to(ROOT))] = str(path.relative_to(ROOT))
    for copy in COPIES.glob("*/*.py"):
        if str(copy.relative_to(ROOT)) not in sources:
            copy.unlink()
    return sources


def checked() -> list[str]:
    """The files and folders to check but for the copies: those of pyproject.toml, and packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    files: list[str] = project["tool"]["mypy"]["files"]
    packages = ROOT.glob("script/*/src/*/__init__.py")
    return [*files, *(str(path.parent.relative_to(ROOT)) for path in packages)]


def main() -> int:
    """Run mypy; its exit status, with its findings printed under the names of the sources."""
    os.chdir(ROOT)
    sources = copy_all()
    os.environ["MYPYPATH"] = str(COPIES.relative_to(ROOT))
    out, err, status = api.run([*sys.argv[1:], *checked(), *sources])
    for copy, source in sources.items():
        out = out.replace(copy, source)
    print(out + err, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
