"""What a server's log says: its table of models, where it listens, and why a model failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Without a GPU it says so in these words, with the letters E and W.
HARMLESS = (
    "CUDA driver version is insufficient",
    "CudaDriverHelper has not been initialized",
    "Failed to initialize NVML",
    "DCGM unable to start",
    "DCGM initialization error",
)
# Causes that its own messages do not name.
NO_MODULE = (
    "its Python finds no {0}: packages are those of the first python3 in PATH, and the stub must "
    "be of that version (PYTHONPATH is ignored)"
)
INSTALLED = "its Python finds no {0}: --adr.triton-server.tags=_{1} installs it with the server"
FULL = "/dev/shm is full: see `df /dev/shm`; a container needs --shm-size=1g"
CAUSES = (
    (r"No module named '((onnxruntime|openvino))'", INSTALLED),
    (r"No module named '(torch)'", INSTALLED.format("{0}", "pytorch")),
    (r"No module named '(\S+?)'", NO_MODULE),
    (r"libpython\S+: cannot open", "the library of its Python is missing"),
    (r"compiled using NumPy 1|numpy\.core\.multiarray failed", "its numpy is 2 or newer"),
    (r"No space left on device|Unable to initialize shared memory", FULL),
)
LAST_LINES = 12
LOADING = re.compile(r"loading: (?P<name>.+):\d+\"?$", re.MULTILINE)
LOADED = re.compile(r"successfully loaded '(?P<name>[^']+)'")
FAILED = re.compile(r"failed to load '(?P<name>[^']+)' version (?P<version>\S+): (?P<why>.*)")


def table(text: str) -> list[str]:
    """The table of models and their states, as the server draws it; nothing where there is none."""
    lines = text.splitlines()
    heads = [
        n for n, line in enumerate(lines) if re.match(r"\| Model +\| Version +\| Status", line)
    ]
    if not heads:
        return []
    first = heads[-1] - 1
    last = first
    while last + 1 < len(lines) and lines[last + 1][:1] in ("+", "|", " "):
        last += 1
    return lines[first : last + 1]


def started(text: str) -> list[str]:
    """Return the lines with the addresses of its services."""
    return [line for line in text.splitlines() if re.search(r"\bStarted \w.* at ", line)]


def failures(text: str) -> dict[str, str]:
    """Return why each model that failed did so, by its name."""
    reasons: dict[str, str] = {}
    for match in FAILED.finditer(text):
        reasons.setdefault(match["name"], _short(match["why"].strip().strip('"')))
    return reasons


def unfinished(text: str) -> list[str]:
    """Return the models whose loading was begun, and has neither ended nor failed."""
    done = {match["name"] for match in LOADED.finditer(text)} | set(failures(text))
    begun = dict.fromkeys(match["name"] for match in LOADING.finditer(text))
    return [name for name in begun if name not in done]


def _short(why: str) -> str:
    """Return an error of a model without the trace of Python's own imports."""
    first, *lines = why.replace("\\n", "\n").splitlines()
    places = [line.strip() for line in lines if re.match(r"\s+\S+\.py\(\d+\)", line)]
    return f"{first} (at {places[0]})" if places else first


def cause(text: str) -> str:
    """Return a known cause in words; empty where none is known."""
    for pattern, words in CAUSES:
        if match := re.search(pattern, text):
            return words.format(*match.groups())
    return ""


def last_lines(text: str) -> list[str]:
    """Return the last lines that may explain its end: no tables, nothing about a GPU."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    plain = [line for line in lines if line[:1] not in "+|" and not harmless(line)]
    return plain[-LAST_LINES:]


def harmless(line: str) -> bool:
    """Return whether a line only says that there is no GPU."""
    return any(words in line for words in HARMLESS)


def shown(text: str) -> Sequence[str]:
    """What its owner wants to see once it is ready."""
    lines = [*table(text), *started(text)]
    if any(harmless(line) for line in text.splitlines()):
        lines.append("(lines of its log about CUDA, NVML and DCGM only say that there is no GPU)")
    return lines
