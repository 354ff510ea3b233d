"""The variables that programs look at by themselves, though no source names them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COMPILERS = (
    b"CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH"
    b" SOURCE_DATE_EPOCH MAKEFLAGS"
)
_GENERATORS = b"CMAKE_ARGS CMAKE_GENERATOR CMAKE_PREFIX_PATH CMAKE_BUILD_PARALLEL_LEVEL"
_OF_PYTHON = (
    b"PYTHONPATH PYTHONHOME PYTHONHASHSEED PYTHONIOENCODING PYTHONOPTIMIZE PYTHONUTF8"
    b" PYTHONUSERBASE PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONWARNINGS"
)
_OF_PIP = (
    b"PIP_CONSTRAINT PIP_NO_BINARY PIP_ONLY_BINARY PIP_PRE PIP_NO_DEPS PIP_INDEX_URL"
    b" PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_INDEX PIP_PLATFORM PIP_TARGET PIP_PREFIX PIP_USER"
    b" PIP_CONFIG_FILE PYTHONPATH XDG_CONFIG_HOME"
)
_OF_GIT = (
    b"GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_SSH_COMMAND"
    b" XDG_CONFIG_HOME GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0"
    b" GIT_DIR GIT_WORK_TREE GIT_TEMPLATE_DIR GIT_LFS_SKIP_SMUDGE GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL"
    b" GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE"
)
OF_SHELLS = frozenset(b"BASH_ENV BASHOPTS SHELLOPTS CDPATH GLOBIGNORE POSIXLY_CORRECT".split())
"""What decides how a shell reads its own script."""
_READ_BY = {
    **dict.fromkeys((b"make", b"gmake", b"ninja", b"configure", b"gcc", b"g++"), _COMPILERS),
    **dict.fromkeys((b"cc", b"c++", b"clang", b"clang++", b"bazel", b"meson"), _COMPILERS),
    b"cmake": _COMPILERS + b" " + _GENERATORS,
    **dict.fromkeys((b"pip", b"pip3"), b" ".join((_COMPILERS, _GENERATORS, _OF_PIP))),
    b"git": _OF_GIT,
    **dict.fromkeys((b"python", b"python3"), _OF_PYTHON),
    **dict.fromkeys((b"df", b"du"), b"BLOCK_SIZE BLOCKSIZE POSIXLY_CORRECT"),
    b"ls": b"BLOCK_SIZE BLOCKSIZE POSIXLY_CORRECT QUOTING_STYLE TIME_STYLE TZ",
    **dict.fromkeys((b"awk", b"gawk"), b"AWKPATH POSIXLY_CORRECT TZ"),
    **dict.fromkeys((b"grep", b"egrep", b"zgrep"), b"GREP_COLOR GREP_COLORS GREP_OPTIONS"),
    **dict.fromkeys((b"gzip", b"gunzip", b"pigz", b"zcat"), b"GZIP"),
    **dict.fromkeys((b"xz", b"unxz", b"xzcat"), b"XZ_DEFAULTS XZ_OPT"),
    b"tar": b"TAR_OPTIONS GZIP XZ_DEFAULTS XZ_OPT ZSTD_CLEVEL",
    **dict.fromkeys((b"zstd", b"unzstd"), b"ZSTD_CLEVEL"),
    b"zip": b"ZIPOPT",
    b"unzip": b"UNZIP",
    b"stat": b"TZ",
    b"curl": b"CURL_HOME",
    b"wget": b"WGETRC",
    b"rsync": b"RSYNC_RSH",
    **dict.fromkeys((b"npm", b"npx"), b"NPM_CONFIG_REGISTRY"),
    **dict.fromkeys((b"conda", b"mamba"), b"CONDA_CHANNELS CONDARC"),
    b"uv": b"UV_CONSTRAINT UV_INDEX_URL UV_DEFAULT_INDEX UV_PRERELEASE UV_RESOLUTION",
    **dict.fromkeys((b"java", b"javac", b"mvn"), b"CLASSPATH JAVA_TOOL_OPTIONS"),
    b"bash": b"BASH_ENV",
    b"cargo": b"RUSTFLAGS CARGO_BUILD_TARGET",
    b"date": b"TZ",
    b"go": b"GOFLAGS GOOS GOARCH CGO_ENABLED",
    b"node": b"NODE_PATH NODE_OPTIONS",
    b"nvcc": b"NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS",
    b"perl": b"PERL5LIB PERL5OPT TZ",
    b"ruby": b"RUBYLIB RUBYOPT",
}
"""What decides the work of a program though no source names it."""


def variables_of(programs: Iterable[bytes]) -> set[bytes]:
    """Return the variables that ``programs`` are known to look at by themselves.

    A version at the end of a name (``python3.11``, ``gcc-12``) makes no difference.
    """
    names = {name for full in programs for name in (full, re.sub(rb"[-.\d]+$", b"", full))}
    return {word for name in names for word in _READ_BY.get(name, b"").split()}


def all_variables() -> set[bytes]:
    """Return the variables that any program is known to look at."""
    return variables_of(_READ_BY)
