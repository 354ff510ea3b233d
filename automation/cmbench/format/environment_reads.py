"""What the programs of a script read from their environment, as far as their sources show it.

A word ``NAME`` is a variable that a native program may read, ``os:NAME`` one of the process that
``customize.py`` looks at. Where a source reads in a way that cannot be followed, by a name that it
puts together or by a look at the whole environment, the word is ``*`` or ``os:*``: all counts.
``HOST/NAME`` is a fact of this machine that a source asks the system for.

Programs and files are observed where a step runs (``cmbench.run.observation``). What a program of
the script does that ``customize.py`` starts is what its source shows: ``os:PATH/NAME``, as in
``cmbench.format.outside``.
"""

from __future__ import annotations

import os
import re

from cmbench.format.called_programs import (
    called_by_python,
    called_by_shell,
    queried_host_facts,
    read_by_calls,
)
from cmbench.format.meta import META_FILES
from cmbench.format.outside import IN_PATH
from cmbench.format.program_variables import OF_SHELLS, variables_of

ALL = "*"
"""The name for every variable."""
HOOK = "customize.py"
_COMPILED = b"\x7fELF"
_DATA = (".md", ".csv", ".xml", ".html")
_TEXT = (".json", ".yaml", ".yml", ".txt")
"""What may hold command lines, or be handed to a shell or to Python as a program."""
_CMAKE = "CMakeLists.txt"
_SHELL_WORD = rb"(?:\$\{?[#!]?|\bprintenv\s+|-v\s+)([A-Za-z_][A-Za-z0-9_]*)"
_ARITHMETIC = (
    rb"\(\(((?s:.*?))\)\)|\$\{([^}]*)\}|\$\[([^\]\n]*)\]|\blet\s([^\n]*)"
    rb"|(\w+\s+-(?:eq|ne|[lg][te])\s+\w+)|\[\[([^\]\n]*\s-(?:eq|ne|[lg][te])\s[^\]\n]*)\]\]"
    rb"|\b\w+\[([^\]\n]+)\]\+?="
)
_IDENTIFIER = rb"\b[A-Za-z_]\w*"
_OS_WORD = (
    rb"(?:environb?(?:\.\w+\(|\[)|getenvb?\()\s*b?['\"](\w+)['\"]"
    rb"|['\"](\w+)['\"]\s+(?:not\s+)?in\s+(?:os\.)?environ"
)
_HOME_OF_SHELL = rb"(?m:(?:^|[\s=:\"'(])~(?:/|[\s)\"';]|$)|\bcd\s*(?:$|[;&|)]))"
_ENV_WORD = rb"\b(?:CM|MLC)_[A-Z0-9_]*"
_ANY_WORD = rb"\b[A-Z][A-Z0-9_]+\b"
"""Programs have more ways to ask for a variable than patterns can list. All of them name it."""
_SHELL_OTHER_WORD = _ANY_WORD + rb"(?!=)"
"""In a shell, one that is given a value is not asked for by that."""
_QUOTED_WORD = rb"['\"]([A-Z][A-Z0-9_]+)['\"]"
_OTHER_WORD = (
    rb"(?:\$[({](?:(?:origin|flavor)\s+)?|\$ENV\{\s*['\"]?|ENVIRON\[\s*['\"\\]+|\b(?:ENV|_ENV|_SERVER|process\.env)\[\s*['\"]"
    rb"|\bENV\.fetch\(\s*['\"]|\bprocess\.env\.|\benv\(|\$ENV\.|\bstrenv\("
    rb"|\bifn?def\s+|\benv_var\w*\(\s*['\"]"
    rb"|(?:[gG]etenv|LookupEnv|env::var(?:_os)?|env!|get_environment_variable|EnvironmentVariable)"
    rb"\(\s*['\"])(\w+)"
)
"""As other languages ask: Perl, awk, Ruby, PHP, JavaScript, Tcl, jq, yq, C, Go, Rust, Fortran."""
_COMMENT = rb"(?m)^[ \t]*#(?!!).*$"
_OPEN_PYTHON = (
    rb"(?<!in os\.)(?<!in )(?<!env=os\.)(?<!env=)(?<!environ=)\benvironb?\b(?!=environ)"
    rb"(?!\s*(?:\[|\.(?:get|pop|setdefault)\()\s*['\"]\w+['\"]\s*[]),])"
    rb"|\bgetenvb?\b(?!\(\s*b?['\"]\w+['\"]\s*[),])|\bexpandvars\b"
    rb"|(?<!['\"])\s+in\s+(?:os\.)?environ\b"
    rb"|\bgetattr\(\s*os\s*,(?!\s*['\"]\w+['\"]\s*[,)])|\bvars\(\s*os\s*\)|\bos\.__dict__\b"
    rb"|\bposix\b|\bCDLL\(\s*None\b|\b(?:exec|eval|compile)\(\s*(?:open|base64|zlib|bytes|codecs)\b"
    rb"|\brunpy\b|/proc/(?:self|thread-self)/(?![a-df-z])"
)
_COPY = (
    rb"(?m)^\s*(\w+)\s*=\s*(?:(?:os\.)?environ(?:\.copy\(\))?|dict\((?:os\.)?environ[^)]*\)"
    rb"|\{\s*\*\*(?:os\.)?environ\b[^}]*\})\s*$"
)
_LISTS_ALL = (
    rb"(?m:(?:^|[;|&(`{!\\]|\b(?:command|builtin|exec|xargs|then|do|else|if|elif|while|until|time"
    rb"|coproc|nohup|sudo|nice|timeout[ \t]+\S+)\b(?:[ \t]+-\S+(?:[ \t]+\d+)?)*[ \t]"
    rb"|\b\w+=[^\s;|&]*[ \t])[ \t]*[\"']?(?:/usr)?(?:/bin/)?"
    rb"(?:(?:env|printenv)[\"']?(?:[ \t]+(?:-0|--null|\w+=[^\s;|&]*))*"
    rb"|set|declare|typeset|export|readonly)[ \t]*(?:$|\d?[|>;&)`}]))"
)
"""A command of a shell that lists all variables, with what may stand before and after it."""
_OPEN_SHELL = (
    rb"\$\{!|\[[^\]\n]*\s-v\s+\S*\$|\btest\s+-v\s+\S*\$|\benvsubst\b|\bprintenv\s+[^\w\s]*\$|\bxargs\b.*\bprintenv\b|\b(?:declare|local|typeset)\s+-\w*[ni]|\b(?:export|declare)\s+-[px]"
    rb"|\\\$(?:\{[#!]?\w*|\w+)\$|\$[({]\w*\$[({]\w+[)}]\w*[)}]"
    rb"|\bcompgen\b|\beval\b[^\n]*\\\$"
    rb"|" + _LISTS_ALL + rb"|(?m:=[\"']?(?:env|printenv)[\"']?\s*(?:$|[;&]))"
    rb"|/environ\b|/proc/(?:self|thread-self|\$\$|\$\{?\w+\}?)/(?![a-df-z])"
    rb"|\bps\s[^|;&\n]*\be(?:ww?)?\b|\bbusybox\s+(?:env|printenv)\b|-c\s+[\"']?(?:env|set|export)\b\s*[\"'|]"
    rb"|\benv\s+-u|\beval\s+[\"']?(?:\$\(|`)|<\(\s*base64"
    rb"|\|\s*(?:sudo\s+)?(?:(?:/usr)?/bin/)?(?:env\s+)?(?:ba|da|k|z)?sh\b"
    rb"|(?m:\|\s*(?:python[\d.]*|perl|ruby|node|tclsh)\s*-?\s*(?:$|[|>;&)]))"
    rb"|\s-[ce]\s+[\"']?(?:\$\(|`)|(?:\bsource|(?m:^|[;&|])\s*\.)\s+(?:<\(|/dev/)|\bcmake\s+-E\s+env\w*\s*(?:$|[|>;&)])"
)
_LISTS_OF_PYTHON = (
    rb"(?<![\w\])])[\[(]\s*['\"](?:/usr/bin/)?(?:env|printenv)['\"](?:\s*,\s*['\"](?:-0|--null)['\"])*"
    rb"\s*,?\s*[\])]"
    rb"|(?:run|call|[pP]open|system|output|exec[lv]\w*|spawn[lv]\w*)\(\s*['\"](?:/usr/bin/)?"
    rb"(?:env|printenv|set|export -p|declare -[px])['\"]"
    rb"|['\"]\s*(?:/usr/bin/)?(?:env|printenv|set|export -p|declare -[px])\s*\|"
)
_PRINTS_OF_PYTHON = rb"['\"](?:/usr)?(?:/bin/)?printenv['\"]\s*,\s*['\"](\w+)['\"]"
_OPEN_INLINE = (
    rb"[%@&](?:main)?(?:::)?ENV\b|\bprocess\.env\b(?!\.\w|\[\s*['\"]\w+['\"]\s*\])|\bjq\b[^\n]*\benv\b|\bENV\.to_h\b|\$ENV\{\s*[$&]|\bENVIRON\b(?!\[\s*['\"\\]+\w+[\\\"']+\s*\])"
    rb"|\bgetenv\(\s*[^'\"\s]|\bmain\s*\([^(){}]*,[^(){}]*,"
)
"""What a program in awk, Perl or C cannot be followed by, in a file of its own or in a shell's."""
_OPEN_OTHER = (
    _LISTS_ALL + rb"|" + _OPEN_INLINE + rb"|\benviron\b|\bENV\.|\$[({]\w*\$[({]|\$\(\.VARIABLES\)"
)
_OPEN_OTHER += (
    rb"|[\"'`!]\s*(?:/usr/bin/)?(?:env|printenv)\s*[\"'`|]|\b(?:shell|exec|COMMAND)\s+\S*\b(?:env|set)\b"
    rb"|=\s*process\s*(?:[;,\n]|$)|\bprocess\[|['\"](?:node:)?process['\"]|\benv\([^)'\"]*\$"
    rb"|\bp?array\s+(?:\w+\s+)?(?:::)?env\b|\bshow\s+environment\b|\buse\s+Env\b"
    rb"|(?:\bin|[=(,])\s*ENV\b(?!\s*[\[{])|\.environment\(|\bos\.Environ\b|\bExpandEnv\b"
    rb"|\benv::vars|\bgetenv\b(?!\s*\()|=\s*env\s*[|>]"
)
"""The same in other languages: a list of all, another name for it, a name that is put together."""
_STARTS = rb"\bsubprocess\b|\bos\.(?:system|popen|exec|spawn)|\bpopen\b|\brun_system\b"
_MAKEFILE = r"(?i)(?:^|/)(?:gnu)?makefile(?:\.\w+)?$|\.mk$"
_OF_ANY_LANGUAGE = r"/\.?[^./]+$|\.(?:env|conf|cfg|rc|profile)$"
"""Names that show no language: a shell or make may read such a file, if any program does."""
_OF_OTHERS = ("-macos.sh", "-windows.sh")
_LOOKS_FOR = rb"\bwhich\s*\(|\bshutil\.which\b"
_OF_A_TERMINAL = re.compile(
    r"(_|PWD|OLDPWD|SHLVL|PS\d|TERM.*|COLUMNS|LINES|SSH_.*|DISPLAY|XDG_.*|WINDOWID|LS_COLORS"
    r"|DBUS_.*|GPG_.*|TMUX.*|STY|HIST.*|WAYLAND_.*|VTE_.*|COLORTERM|CMBENCH_.*|PYTEST_.*"
    r"|[A-Z]+_TMP_RUN_DIR)$"
)
"""The last is the engine's own mark of a step's programs, which stays behind when a hook ended."""


class Reads:
    """Collects the words of one script, file after file."""

    def __init__(self) -> None:
        self._native: set[bytes] = set()
        self._programs: set[bytes] = set()
        self._process: set[bytes] = set()
        self._starts = False

    def add(self, name: str, data: bytes) -> None:
        """Look into the file ``name`` of the script."""
        if name in META_FILES:
            return
        kind = _kind(name, data)
        code = data if kind in ("data", "compiled") else re.sub(_COMMENT, b"", data)
        if name == HOOK:
            self._hook(code)
            return
        words = _READERS[kind](code) | set(re.findall(_ENV_WORD, data))
        self._native |= _followed(kind, words)
        if kind in _PROGRAMS and not name.endswith(_OF_OTHERS):
            self._native |= queried_host_facts(code)
            self._programs |= _started(kind, name, code)
        if kind == "shell":
            self._native |= OF_SHELLS
        if kind == "python" and "/" not in name:
            self._process |= _python(code)

    def add_library_hook(self, data: bytes) -> None:
        """Look into shared code that ``customize.py`` imports, whose env is traced.

        It may hand commands to a native program. What it opens and starts is observed.
        """
        code = re.sub(_COMMENT, b"", data)
        self._native |= set(re.findall(_SHELL_WORD, code))
        self._process |= _groups(_OS_WORD, code)

    def _hook(self, code: bytes) -> None:
        self._process |= _python(code) | queried_host_facts(code)
        if re.search(_LOOKS_FOR, code):
            self._process.add(b"PATH")
        if re.search(_STARTS, code):
            self._starts = True
            self._process |= _in_commands(code)

    def words(self) -> tuple[str, ...]:
        """What was found, sorted. A hook that starts programs reads what those may read."""
        process = self._process
        if self._starts:
            process = process | self._native | _reads_of(self._programs)
        words = {word.decode() for word in self._native}
        return tuple(sorted(words | {"os:" + word.decode() for word in process}))


_PREFIXES = (b"CM_", b"MLC")
_PROGRAMS = ("shell", "python", "other")


def _kind(name: str, data: bytes) -> str:
    first = data[:80].partition(b"\n")[0] if data.startswith(b"#!") else b""
    if name.endswith(".sh") or re.search(rb"\b(?:ba|da|z|k)?sh\b", first):
        return "shell"
    if name.endswith(".py") or b"python" in first:
        return "python"
    if data.startswith(_COMPILED):
        return "compiled"
    if name.endswith(_CMAKE):
        return "other"
    if name.endswith(_TEXT) and b"\0" not in data:
        return "text"
    return "data" if name.endswith((*_DATA, *_TEXT)) or b"\0" in data else "other"


def _followed(kind: str, words: set[bytes]) -> set[bytes]:
    """``words`` without the starts of names that are put together, for which all count."""
    put_together = {word for word in words if word.endswith(b"_") and word[:3] in _PREFIXES}
    everything = {ALL.encode()} if put_together and kind != "data" else set()
    return (words - put_together) | everything


def _started(kind: str, name: str, code: bytes) -> set[bytes]:
    """The programs that a source starts by a bare name."""
    programs: set[bytes] = set()
    if name.endswith(_OF_OTHERS):
        return programs
    if kind == "shell" or re.search(_MAKEFILE, name):
        programs = called_by_shell(code)
    if kind in ("shell", "python") and re.search(_STARTS, code):
        programs = programs | called_by_python(code)
    return programs


def _reads_of(named: set[bytes]) -> set[bytes]:
    """The reads of programs and files, and of the variables that such programs look at."""
    return {IN_PATH.encode() + word for word in named} | variables_of(named)


def _groups(pattern: bytes, code: bytes) -> set[bytes]:
    matches = re.findall(pattern, code)
    return {word for item in matches for word in (item if isinstance(item, tuple) else [item])} - {
        b""
    }


def _python(code: bytes) -> set[bytes]:
    # A copy has the name of what it was made of: that it is handed to a program reads nothing.
    for name in set(re.findall(_COPY, code)):
        code = re.sub(_COPY.replace(rb"(\w+)", name), b"", code)
        code = re.sub(rb"(?<!['\"\w])" + name + rb"(?!['\"\w])", b"environ", code)
    open_ = {ALL.encode()} if re.search(_OPEN_PYTHON, code) else set()
    return _groups(_OS_WORD, code) | read_by_calls(code) | open_


def _program(code: bytes) -> set[bytes]:
    """What a native program in Python reads."""
    commands = _in_commands(code) if re.search(_STARTS, code) else set()
    return _python(code) | set(re.findall(_QUOTED_WORD, code)) | commands


def _in_commands(code: bytes) -> set[bytes]:
    """What the command lines in a source of Python read."""
    words = set(re.findall(_SHELL_WORD, code)) | _groups(_PRINTS_OF_PYTHON, code)
    return words | ({ALL.encode()} if re.search(_LISTS_OF_PYTHON, code) else set())


def program_words(path: str, data: bytes) -> tuple[str, ...]:
    """Return what the program at ``path`` reads; of a text without a kind, what a shell may.

    Or make: of such a text only the words behind ``$`` count.
    """
    kind = _kind(path, data)
    if kind not in _PROGRAMS:
        return ()
    is_named = not re.search(_OF_ANY_LANGUAGE, path) or re.search(_MAKEFILE, path)
    if not is_named and not data.startswith(b"#!"):
        words = set(re.findall(_SHELL_WORD, data)) | _groups(_OTHER_WORD, data)
        return tuple(word.decode() for word in words)
    reads = Reads()
    reads.add(path, data)
    return reads.words()


def words_of_command(line: str) -> set[str]:
    """Return what the command line of a shell reads; of Python in it, what its patterns show."""
    code = line.encode(errors="replace")
    return {word.decode() for word in _shell(code) | queried_host_facts(code)}


def words_of_python(code: str) -> set[str]:
    """Return the variables that a program of Python reads."""
    return {word.decode() for word in _python(code.encode(errors="replace"))}


def _shell(code: bytes) -> set[bytes]:
    parts = b" ".join(_groups(_ARITHMETIC, code))
    words = set(re.findall(_SHELL_WORD, code)) | set(re.findall(_IDENTIFIER, parts))
    if re.search(_HOME_OF_SHELL, code):
        words.add(b"HOME")
    words |= _groups(_OTHER_WORD, code) | set(re.findall(_SHELL_OTHER_WORD, code))
    if re.search(_OPEN_SHELL, code) or re.search(_OPEN_INLINE, code):
        words.add(ALL.encode())
    # A program may stand in the script itself.
    return words | _python(code)


def _other(code: bytes) -> set[bytes]:
    open_ = {ALL.encode()} if re.search(_OPEN_OTHER, code) else set()
    words = set(re.findall(_SHELL_WORD, code)) | set(re.findall(_ANY_WORD, code))
    return _groups(_OTHER_WORD, code) | words | open_


def _text(code: bytes) -> set[bytes]:
    """A text may be a list, or what a shell or Python is given to read."""
    return set(re.findall(_SHELL_WORD, code)) | _groups(_OS_WORD, code)


def _compiled(code: bytes) -> set[bytes]:
    return {ALL.encode()}


def _data(code: bytes) -> set[bytes]:
    return set()


_READERS = {
    "shell": _shell,
    "python": _program,
    "other": _other,
    "text": _text,
    "compiled": _compiled,
    "data": _data,
}


def is_of_terminal(name: str) -> bool:
    """Return whether a variable differs between the terminals of one user."""
    return _OF_A_TERMINAL.match(name) is not None


def process_variables() -> dict[str, str]:
    """Return the variables of this process without those that differ between terminals."""
    return {key: value for key, value in os.environ.items() if not is_of_terminal(key)}
