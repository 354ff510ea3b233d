"""The shared code that a script names under ``uses``: which files an import of it runs and opens.

A name means a module, or a package with everything in it, and what these import
(``cmbench.lib.import_closure``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

import cmbench
from cmbench.errors import Error
from cmbench.lib.import_closure import Imports, import_closure, source_of, statement_closure
from cmbench.values import immutable

FOLDER = "lib"
"""Where a repository of scripts keeps shared code, from its root."""
OWN = "./lib/"
"""How a name begins that means the repository of the script itself, written as a path."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ScriptLibrary:
    """The module or package of a name under ``uses``.

    ``root`` is the folder to import ``dotted`` from, ``digest`` that of all sources, ``words`` the
    variables and files that these name, as ``environment_reads.Reads.words``. A look at the whole
    environment or at a fact of the machine is no such word: some module of a large closure has one,
    whatever the part does that a script uses, and every change of a variable would make its entries
    stale.

    ``hook_words`` are the words where ``customize.py`` imports it. Its env is traced, so that only
    reads of the process count, words in commands, and what the programs read that it names.
    """

    root: str
    dotted: str
    digest: str
    words: tuple[str, ...]
    hook_words: tuple[str, ...]


def locate(script: str, name: str) -> tuple[str, str]:
    """Return the root and the dotted name of ``name``, as the script at ``script`` writes it.

    The repository of the script comes first, then the libraries of the engine's own. Raises
    ``Error`` (``bad-meta``) where neither has it.
    """
    own = os.path.join(os.path.dirname(os.path.dirname(script)), FOLDER)
    dotted = name.removeprefix(OWN).strip("/").replace("/", ".") if name.startswith(OWN) else name
    roots = [own] if name.startswith(OWN) else [own, cmbench.LIBRARIES]
    for root in roots:
        if source_of(root, dotted):
            return root, dotted
    if not os.path.isdir(cmbench.LIBRARIES):
        raise Error(
            "incomplete-installation",
            f"the libraries of cmbench are missing: there is no {cmbench.LIBRARIES}",
            hint="install it again: `pip install --force-reinstall cmbench`",
        )
    raise Error(
        "bad-meta",
        f"{script}: it uses {name}, and there is no such module or package",
        context=[f"looked in {root}" for root in roots],
        hint=_advice(own, name),
    )


def _advice(own: str, name: str) -> str:
    """Return what to do about ``name``, which is in no library; ``own`` is that of the script."""
    path = os.path.normpath(name.removesuffix(".py")).removeprefix(f"{FOLDER}/")
    if "/" in name and not path.startswith("..") and source_of(own, path.replace("/", ".")):
        return f"write {OWN}{path}"
    return "correct the key uses, or add the module to lib of the repository"


def search_path(script: str, names: Iterable[str]) -> list[str]:
    """Return the folders that the programs of ``script`` need to import ``names``.

    Raises ``Error`` (``bad-meta``) where two of them have a package of the same name: Python would
    import the first for both.
    """
    roots = list(dict.fromkeys(locate(script, name)[0] for name in names))
    packages = [set(_top_level(root)) for root in roots]
    if common := sorted(set.intersection(*packages)) if len(roots) > 1 else []:
        raise Error(
            "bad-meta",
            f"{script}: it uses shared code of two repositories, and both have {common[0]}",
            context=[f"{root}/{common[0]}" for root in roots],
            hint=f"rename {common[0]} in lib of the repository",
        )
    return roots


def _top_level(root: str) -> Iterator[str]:
    for name in os.listdir(root):
        if source_of(root, name.removesuffix(".py")) and not name.startswith("__"):
            yield name.removesuffix(".py")


def read_sources(root: str, dotted: str, imports: Imports) -> tuple[list[str], ScriptLibrary]:
    """Return the paths that ``stamp`` looks at for ``dotted``, and what they say.

    A file that appears may change what an import means: so the folders are among the paths.
    Raises ``Error`` (``file-error``) for a file that cannot be read.
    """
    import hashlib

    from cmbench.format.environment_reads import Reads

    digest, reads, hook_reads = hashlib.sha256(), Reads(), Reads()
    try:
        files = import_closure(root, dotted, imports)
        modules, named = statement_closure(root, dotted, imports)
        for name in files:
            with open(f"{root}/{name}", "rb") as stream:
                data = stream.read()
            digest.update(os.fsencode(f"{name}\0{len(data)}\0") + data)
            reads.add(name, data)
            if name in modules:
                hook_reads.add_library_hook(data)
            if name in named:
                hook_reads.add(name, data)
    except OSError as error:
        raise Error(
            "file-error",
            f"shared code cannot be read: {error.filename}: {error.strerror}",
            hint="make it readable for this user",
        ) from error
    words, hook_words = (
        tuple(word for word in each.words() if _is_named(word.removeprefix("os:")))
        for each in (reads, hook_reads)
    )
    library = ScriptLibrary(root, dotted, digest.hexdigest()[:32], words, hook_words)
    return [*files, *_folders(files)], library


def _folders(files: Iterable[str]) -> list[str]:
    """Return all folders above ``files``, up to the root, which is an empty text."""
    parts = (name.split("/")[:-1] for name in files)
    folders = {"/".join([*some[:count], ""]) for some in parts for count in range(len(some) + 1)}
    return sorted(folders)


def _is_named(word: str) -> bool:
    from cmbench.format.environment_reads import ALL
    from cmbench.format.outside import HOST

    return word != ALL and not word.startswith(HOST)


def stamp(root: str, paths: Iterable[str]) -> str:
    """Return size and time of all paths below ``root``; of one that is gone, neither."""
    return "\n".join([f"{name}:{_state(f'{root}/{name}')}" for name in paths])


def _state(path: str) -> str:
    with suppress(OSError):
        info = os.stat(path)
        return f"{0 if path.endswith('/') else info.st_size}:{info.st_ctime_ns}"
    return ":"


def stamp_again(root: str, seen: str) -> str:
    """Return the ``stamp`` of the same paths as ``seen`` as they are now."""
    return stamp(root, [line.rsplit(":", 2)[0] for line in seen.splitlines()])
