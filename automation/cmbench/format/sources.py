"""Contents of a script directory: its own files, their digest, and what its programs read.

All that the engine finds out by looking into the source of a script is found out here. The patterns
are texts: most commands need none of them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from operator import attrgetter

from cmbench.errors import Error
from cmbench.format.meta import META_FILES
from cmbench.lib.text_files import read_or_empty, sha256
from cmbench.values import immutable

_IGNORED = frozenset(
    [
        *("__pycache__", "tests", "detection_test.yaml", ".git", ".DS_Store", "Thumbs.db"),
        *(".vscode", ".idea", ".ropeproject", ".ipynb_checkpoints", ".vs", ".zed", ".fleet"),
        *(".pytest_cache", ".ruff_cache", ".mypy_cache", ".pytype", ".hypothesis", ".tox", ".nox"),
        *(".svn", ".hg", ".jj", ".coverage"),
    ]
)
"""What Python, tools, editors and version control keep in a folder, and tests."""
_LEFT = (".pyc", ".pyo", "~", ".orig", ".rej", ".kate-swp", ".un~")
_LEFT_HIDDEN = (".nfs", ".#", ".fuse_hidden", "._", ".goutputstream-")
# Of these, one counts that a program of the script names, other than in an address.
_NAMED = rb"(?<![\w.-])(README[\w.-]*|COPYRIGHT[\w.-]*|detection_test\.yaml|tests(?![\w.-]))"
# So do those that a pattern with a letter in it fits (`*.md`).
_PATTERN = rb"(?<![\w.*?-])(?=[\w.?-]*\*)(?=[*.?-]*\w)[\w.*?-]+"
_DOCUMENT = r"README|COPYRIGHT|tests$|detection_test\.yaml$"
# Files that people read and metadata, which start nothing.
_NEVER_RUN = (".md", *META_FILES)
_ADDRESS = rb"https?://\S+"
_NAME = attrgetter("name")
_SHORT = 16
"""Digits of a digest that tell the versions of one file apart."""
_LARGEST = 8 << 20
"""A larger file of a script counts by size and time, in bytes: looking into it takes long."""
_MOST = 32 << 20
"""So many bytes of one script are looked into; of what is more, the largest files are not."""
_HEAD = 1 << 16
"""So much of a large file is looked into: its kind, and the script of an archive that has one."""
_BESIDE = rb"/\.\./([\w-][\w.-]*)/"
_KEY = r"\+?\b[A-Z][A-Z0-9_]{2,}\b"
_RUNS_CM = (
    r"\bcm[rx]?\s+(?:run|plan|replay|pull)\b|\bml[cr]r?\s|\bcmind\b|\.access\("
    r"|(?:action|cache)_(?:object|action)\b"
)
_OF_OTHERS = ("-macos.sh", "-windows.sh")
_SUDO = r"(?m)^[^#\n]*\bsudo\b"
_SHELL_FETCHES = (
    r"(?m)^[^#\n]*\b(?:wget|curl|git\s+(?:clone|pull|fetch)|pip3?\s+install"
    r"|(?:apt|apt-get|dnf|yum|brew|conda)\s+(?:-\S+\s+)*install)\b"
)
_NO_CALL = r"""[=!]=\s*(['"])[^'"\n]*\1|=\s*(['"])[^'"\n]*\2(?=\s+if\b)"""
"""A Python string that is only compared, or one of a choice."""
_PYTHON_FETCHES = r"(?m)^[^#\n]*(?:\burlretrieve|\burlopen|\brequests\.get)\("


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Content:
    """Digest of a script's own files, their names, the env words that its programs may read.

    The words are those of ``reading``. What is ``shared`` counts as its own files do: folders
    beside its own, and documents or tests of its own that a program of it reads.
    """

    digest: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    shared: tuple[str, ...] = ()


def own_files(path: str) -> list[tuple[str, int, int]]:
    """Name, size and time (ns) of every file of the script directory ``path`` that counts.

    The time is that of the last change of any kind: who writes a file can put back the other one.
    Of a link to a folder that is not looked into, both are its own. Raises ``file-error`` for a
    folder that cannot be read.
    """
    states: list[tuple[str, int, int]] = []
    linked: set[str] = set()
    pending = [""]
    while pending:
        prefix = pending.pop()
        for entry in _entries(f"{path}/{prefix}"):
            name = prefix + entry.name
            if _is_ignored(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False) or _is_linked(entry, path, linked):
                pending.append(name + "/")
            else:
                states += _size_and_time(entry, name)
    return states


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=_NAME)
    except OSError as problem:
        raise _unreadable(folder.rstrip("/"), problem) from None


def _unreadable(path: str, problem: OSError) -> Error:
    return Error(
        "file-error",
        f"{path} cannot be read: {problem.strerror or problem}",
        hint="all files of a script count: make it readable, or take it out of the script's folder",
    )


def _is_ignored(name: str) -> bool:
    """Whether a file or folder of that name is no part of a script: notes, tests, leftovers."""
    return (
        name in _IGNORED
        or name.startswith(("README", "COPYRIGHT", *_LEFT_HIDDEN))
        or name.endswith(_LEFT)
        # What an editor keeps while it has a file open: .run.sh.swp, #run.sh#
        or (name[0] == "." and name[1:][-4:-1] == ".sw")
        or (name[0] == "#" == name[-1])
    )


def _is_linked(entry: os.DirEntry[str], path: str, linked: set[str]) -> bool:
    """Whether ``entry`` leads to a folder whose files count too.

    It is in the repository of the script at ``path``, in no folder that counts anyway, and neither
    in ``linked`` nor above the script. What lies elsewhere has no bounds: a data set, ``/usr``.
    """
    if not entry.is_symlink():
        return False
    target, own = os.path.realpath(entry.path), os.path.realpath(path)
    repository = os.path.realpath(os.path.dirname(os.path.dirname(path)))
    if target in linked or not os.path.isdir(target) or not _is_below(target, repository):
        return False
    linked.add(target)
    return not _is_below(own, target) and not _is_below(target, own)


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _size_and_time(entry: os.DirEntry[str], name: str) -> list[tuple[str, int, int]]:
    """Name, size and time of a file, or of a link to a folder; nothing for one to nowhere."""
    with suppress(OSError):
        if entry.is_file():
            info = entry.stat()
            return [(name, info.st_size, info.st_ctime_ns)]
        if entry.is_dir():
            info = entry.stat(follow_symlinks=False)
            return [(name, info.st_size, info.st_ctime_ns)]
    return []


def shared_files(path: str, shared: Iterable[str]) -> list[tuple[str, int, int]]:
    """As ``own_files`` for what is ``shared`` next to ``path``; names begin with ``../``."""
    states: list[tuple[str, int, int]] = []
    for name in shared:
        target = f"{os.path.dirname(path)}/{name}"
        if os.path.isdir(target):
            files = [(f"/{file}", size, time) for file, size, time in own_files(target)]
        else:
            files = []
            with suppress(OSError):
                info = os.stat(target)
                files = [("", info.st_size, info.st_ctime_ns)]
        states += [(f"../{name}{file}", size, time) for file, size, time in files]
    return states


def read_content(path: str, names: Sequence[str]) -> Content:
    """The content of the script directory ``path``, whose own files are ``names``, sorted.

    A folder beside it that one of its native scripts names as ``/../NAME/`` is shared: its files
    count too. Of another script, only the native ones show what is read. So does what else is left
    out (README, COPYRIGHT, tests, a file of an editor) where a program names it. Large files count
    by size and time, and of their content only the beginning is looked into. Raises ``file-error``
    for a file that cannot be read.
    """
    import hashlib

    from cmbench.format.environment_reads import Reads

    digest = hashlib.sha256()
    reads = Reads()
    beside: set[bytes] = set()
    named: set[bytes] = set()
    named_left: set[str] = set()
    large, leftovers = _large(path, names), _leftovers(path)
    for name in names:
        data = _read(digest.update, path, name, name in large)
        reads.add(name, data)
        beside |= set(re.findall(_BESIDE, data)) if name.endswith(".sh") else set()
        named_left |= {left for left in leftovers if left.encode() in data}
        if not name.endswith(_NEVER_RUN):
            text = re.sub(_ADDRESS, b"", data)
            named |= set(re.findall(_NAMED, text))
            # A pattern in binary data means nothing.
            named |= set(re.findall(_PATTERN, text)) if b"\0" not in data else set()
    shared = tuple(name for each in sorted(beside) if _is_shared(path, name := each.decode()))
    shared += _named_documents(path, tuple(each.decode() for each in named))
    shared += tuple(f"{os.path.basename(path)}/{left}" for left in sorted(named_left))
    names_beside = [name for name, _, _ in sorted(shared_files(path, shared))]
    large = _large(path, names_beside)
    for name in names_beside:
        data = _read(digest.update, path, name, name in large)
        # What a native script sources of a folder for all only makes way for programs.
        if name.endswith(".sh") == _is_script(path, name.split("/")[1]):
            reads.add(name, data)
    return Content(digest.hexdigest()[:32], reads.words(), tuple(names), shared)


def _leftovers(path: str) -> list[str]:
    """Names of the files in ``path`` that editors and tools leave behind."""
    return [
        name
        for name in os.listdir(path)
        if _is_ignored(name) and not re.match(_DOCUMENT, name) and os.path.isfile(f"{path}/{name}")
    ]


def _named_documents(path: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return documents and tests of a script that a program of it names, in words or patterns."""
    if not named:
        return ()
    folder = os.path.basename(path)
    left = sorted(name for name in os.listdir(path) if re.match(_DOCUMENT, name))
    whole = [word if "*" in word else word + "*" for word in named]
    from fnmatch import translate

    fits = re.compile("|".join(map(translate, whole))).match
    return tuple(f"{folder}/{name}" for name in left if fits(name))


def _large(path: str, names: Iterable[str]) -> set[str]:
    """Those of ``names`` that count by size and time: large ones, and the largest of too many."""
    sizes = []
    for name in names:
        with suppress(OSError):
            sizes.append((os.stat(f"{path}/{name}").st_size, name))
    sizes.sort()
    totals = accumulate([size for size, _ in sizes])
    return {
        name
        for (size, name), total in zip(sizes, totals, strict=True)
        if size > _LARGEST or total > _MOST
    }


def _read(update: Callable[[bytes], None], path: str, name: str, is_large: bool) -> bytes:
    """Pass a file that counts to ``update``, a digest's; return its content to be searched."""
    place = os.path.join(path, name)
    if os.path.isdir(place):
        update(f"{name}\0link\0".encode() + os.fsencode(os.readlink(place)))
        return b""
    try:
        with open(place, "rb") as stream:
            # What grows while it is read, such as a file of the system, has no size.
            data = stream.read(_HEAD if is_large else _LARGEST)
            info = os.fstat(stream.fileno())
    except OSError as problem:
        raise _unreadable(os.path.normpath(place), problem) from None
    counted = f"{info.st_size} {info.st_mtime_ns}".encode() if is_large else data
    target = os.readlink(place) if os.path.islink(place) else ""
    kind = "x" if info.st_mode & stat.S_IXUSR else "-"
    update(os.fsencode(f"{name}\0{kind}\0{target}\0{'large' if is_large else len(data)}\0"))
    update(counted)
    return data


def _is_shared(path: str, name: str) -> bool:
    return name != os.path.basename(path) and os.path.isdir(f"{os.path.dirname(path)}/{name}")


def _is_script(path: str, name: str) -> bool:
    folder = os.path.join(os.path.dirname(path), name)
    return any(os.path.isfile(os.path.join(folder, meta)) for meta in META_FILES)


def file_digests(path: str) -> dict[str, str]:
    """Return digests of the files of the script directory ``path`` that count, read from disk."""
    from pathlib import Path

    from cmbench.lib.files import file_checksum

    digests = {}
    for name, _, _ in own_files(path):
        file = Path(path, name)
        if file.is_dir():
            digests[name] = sha256(os.readlink(file), _SHORT)
            continue
        try:
            digests[name] = file_checksum(file, "sha256")[:_SHORT]
        except OSError as problem:
            raise _unreadable(str(file), problem) from None
    return digests


def _shared_code(code: str) -> str:
    """The modules of ``cmbench.lib`` that ``code`` imports from."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
    imports = re.findall(
        r"(?m)^\s*from cmbench\.lib\.(\w+) import|^\s*from cmbench\.lib import (.+)", code
    )
    names = {name.strip() for pair in imports for part in pair for name in part.split(",") if name}
    return "\n".join(read_or_empty(os.path.join(folder, f"{name}.py")) for name in sorted(names))


class Programs:
    """The programs of the script directory ``path``, read once, on demand.

    ``names`` are the files of the script that count.
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self._path = path
        self._names = [name for name in names if name.endswith((".py", ".sh"))]
        self._read: dict[str, str] = {}

    def _texts(self, names: Iterable[str]) -> dict[str, str]:
        for name in names:
            if name in self._names and name not in self._read:
                self._read[name] = read_or_empty(os.path.join(self._path, name))
        return {name: self._read[name] for name in names if name in self._read}

    def _matches(self, pattern: str, ending: str = "") -> bool:
        texts = self._texts([name for name in self._at_top if name.endswith(ending)]).values()
        return any(re.search(pattern, text) for text in texts)

    @cached_property
    def _at_top(self) -> list[str]:
        return [name for name in self._names if "/" not in name]

    @cached_property
    def hooks(self) -> str:
        """Return what runs in every step: ``customize.py`` and ``run.sh``."""
        return "".join(self._texts(("customize.py", "run.sh")).values())

    @cached_property
    def keys(self) -> set[str]:
        """All words that may be env keys."""
        return set(re.findall(_KEY, "".join(self._texts(self._names).values())))

    @cached_property
    def runs_cm(self) -> bool:
        """Whether a program may start ``cm``, and the engine in it, itself."""
        return re.search(_RUNS_CM, "".join(self._texts(self._names).values())) is not None

    @cached_property
    def calls_sudo(self) -> bool:
        """Whether a program can call ``sudo``."""
        return self._matches(_SUDO)

    @cached_property
    def fetches(self) -> bool:
        """Whether a program can download by itself."""
        return self._matches(_SHELL_FETCHES, ".sh") or self._matches(_PYTHON_FETCHES, ".py")

    @property
    def called_programs(self) -> set[str]:
        """All words that stand where a shell or a hook names a program."""
        from cmbench.format.called_programs import called_by_python, called_by_shell

        texts = self._texts(self._at_top).items()
        shell = "\n".join(t for n, t in texts if n.endswith(".sh") and not n.endswith(_OF_OTHERS))
        hooks = "\n".join(text for name, text in texts if name.endswith(".py"))
        hooks = re.sub(_NO_CALL, "", hooks)
        words = called_by_shell(shell.encode()) | called_by_python(hooks.encode())
        return {word.decode() for word in words}

    def uses(self, key: str) -> tuple[bool, bool]:
        """Whether a program sets the env key, and whether one names it without setting it."""
        code = "\n".join(self._texts(self._at_top).values())
        word = re.escape(key)
        sets = re.search(rf"""\[['"]{word}['"]\]\s*=[^=]""", code) or re.search(
            rf"""(?m)^\s*echo\s+['"]?{word}=""", code
        )
        named = re.search(rf"\b{word}\b", code) or re.search(rf"\b{word}\b", _shared_code(code))
        return bool(sets), not sets and bool(named)

    def hooks_set(self, key: str) -> bool:
        """Whether ``hooks`` set the env key, and do not only look at it."""
        if key not in self.hooks:
            return False
        name = re.escape(key)
        return bool(
            re.search(
                rf"""['"]{name}['"]\s*(?:\]\s*=(?!=)|:)|setdefault\(\s*['"]{name}['"]"""
                rf"""|\b{name}=(?!=)""",
                self.hooks,
            )
        )
