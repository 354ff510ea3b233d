"""What of this machine and its user must not leave it, and logs without that.

The manifest is a list of what may go; only logs are texts of somebody else. Of them whole lines go
that have not LoadGen's form, and in the others this looks for the names, addresses and secrets of
this machine, as they are and in other encodings, and for what looks like one.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cmbench.lib.secrecy import HIDDEN, is_secret, mask
from cmbench.lib.text_files import read_or_empty

_PLACES = ("HOSTNAME", "HOST", "COMPUTERNAME", "USER", "LOGNAME", "USERNAME", "HOME", "USERPROFILE")
_MOUNTS = "/proc/self/mountinfo"
_SERIALS = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "chassis_asset_tag")
_SHORT, _SECRET, _VALUE, _CHANCE = 5, 6, 16, 12
"""Characters: a shorter word counts between others only; a shorter secret, or a shorter value of
any variable, is not looked for, as it is found in words that it is no part of."""
_SHAPES = re.compile(
    r"""(?<![\w/])/(?:[\w.+~@-]+/)+[\w.+~@-]*        # a path
    | \b[A-Za-z]:\\[^\s"']+ | \\\\[\w.-]+\\[^\s"']+
    | ~[\w-]*/[\w./-]+
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                    # an e-mail address
    | (?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])      # addresses of networks and devices
    | \b(?:[0-9A-Fa-f]{1,4}:){3,7}:?[0-9A-Fa-f]{1,4}\b
    | \b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b
    | \b(?:[A-Z]{2,4}-)?[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b
    | \b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[a-z]-|AKIA|ASIA|eyJ)[\w.-]{8,}  # tokens
    """,
    re.VERBOSE,
)
_LOADGEN = frozenset(
    ("Offline", "Server", "SingleStream", "MultiStream", "PerformanceOnly", "AccuracyOnly")
    + ("SubmissionRun", "FindPeakPerformance", "VALID", "INVALID", "Yes", "NO", "Performance")
    + ("Accuracy", "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END", "mlperf::logging", "")
)
"""Values by which logs are read: they stay, though a machine may be called so."""
_OWN = re.compile(
    r"Py[A-Za-z]{0,8}(SUT|QSL)|[a-z_]{1,40}\.(cc|h)|[0-9a-f]{40}"
    r"|\d{1,4}(\.\d{1,5}){0,3}( @ [0-9a-f]{7,40})?"
)
"""What else LoadGen writes: names of its Python binding and of its sources, and versions."""
_POWER = "%m-%d-%Y %H:%M:%S.%f"
_PROSE = (
    *("early_stopping_result", "generic_message", "result_invalid_reason", "error_invalid"),
    *("warning_generic_message", "error_generic_message", "error_runtime"),
)
_WORDS = re.compile(r"[A-Za-z]{1,20}|[a-z]+(?:_[a-z]+)+|\d{1,20}(?:th|e\d+)?")
_WITH = re.compile(r"\bw/(?:o\b)?")
_JOINED = re.compile(r"\w(?!\.\d|[-'][a-z])[^\w\s]+\w|[^\s -~]")
"""What no sentence has: words with signs between them, as addresses and paths are, and controls."""
_MARK = ":::MLLOG "
_KEYS = ("key", "value", "time_ms", "namespace", "event_type", "metadata")
_SAID = ("is_error", "is_warning", "file", "line_no")
_KEY = re.compile(r"[a-z][a-z0-9_.]*")
_SOURCE = re.compile(r"/?[\w.-]+(?:/[\w.-]+){0,4}", re.ASCII)
_ANSWER = re.compile(
    r'\{\s*"seq_id"\s*:\s*\d+,\s*"qsl_idx"\s*:\s*\d+,\s*"data"\s*:\s*"[0-9A-Fa-f]*"'
    r'(,\s*"token_count"\s*:\s*\d+)?\s*\},?|[\[\]]?'
)
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?%?")


class Redaction:
    """Words that must not leave; ``text`` and ``log`` return a text without them."""

    def __init__(self, words: Iterable[str]) -> None:
        forms = {form for word in words for form in _forms(word)}
        self._words = _any_of(forms)
        # Of a model's outputs a short one would be found by chance.
        self._long = _any_of(form for form in forms if len(form) >= _CHANCE)

    @classmethod
    def here(cls) -> Redaction:
        """Return those of this machine, its user and its environment."""
        return cls((*_of_host(), *_of_environment()))

    def within(self, text: str) -> bool:
        """Return whether ``text`` has any of them, or something that looks like one."""
        return self.text(text) != text

    def text(self, text: str) -> str:
        """Return ``text`` with the words replaced by ``***``."""
        return mask(_SHAPES.sub(HIDDEN, self._words.sub(HIDDEN, text)))

    def log(self, role: str, data: bytes) -> tuple[bytes, int]:
        """Return a log of LoadGen without them, and the number of lines left out or changed."""
        clean = {"detail": self._detail, "summary": self._summary}.get(
            role.rpartition("-")[2], self._answers
        )
        lines = data.decode("utf-8", "replace").splitlines(keepends=True)
        cleaned = [clean(line) for line in lines]
        changed = sum(one != other for one, other in zip(lines, cleaned, strict=True))
        return "".join(cleaned).encode("utf-8"), changed

    def _detail(self, line: str) -> str:
        """Return a line of the long log with only those fields, and texts, that LoadGen writes."""
        try:
            entry = json.loads(line.removeprefix(_MARK)) if line.startswith(_MARK) else None
        except (ValueError, RecursionError):
            return ""
        if not isinstance(entry, dict) or not self._name(entry.get("key"), _KEY):
            return ""
        cleaned = {name: self._part(entry, name) for name in _KEYS if name in entry}
        return line if cleaned == entry else f"{_MARK}{json.dumps(cleaned)}\n"

    def _part(self, entry: Mapping[str, Any], name: str) -> object:
        part = entry[name]
        if name == "value" and entry["key"] in _TIMES:
            return _TIMES[entry["key"]](part)
        if name == "metadata" and isinstance(part, dict):
            return {key: self._value(value) for key, value in part.items() if key in _SAID}
        if name == "value" and isinstance(part, str) and entry["key"] in _PROSE:
            return self._prose(part)
        return part if name == "key" else self._value(part)

    def _value(self, value: object) -> object:
        if isinstance(value, dict):
            return {k: v for k, v in value.items() if self._name(k, _SOURCE) and _is_digest(v)}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value if not isinstance(value, str) or self._is_own(value) else HIDDEN

    def _is_own(self, value: str) -> bool:
        if value in _LOADGEN:
            return True
        return _OWN.fullmatch(value) is not None and not self.within(value)

    def _name(self, key: object, form: re.Pattern[str]) -> bool:
        """Return whether LoadGen may have called something so."""
        fits = isinstance(key, str) and form.fullmatch(key)
        return bool(fits) and not self.within(str(key).replace("/", " "))

    def _prose(self, text: str) -> str:
        """Return a message of LoadGen: plain words and numbers, else nothing of it."""
        words = re.findall(r"\w+", text)
        plain = not _JOINED.search(_WITH.sub("", text)) and all(map(_WORDS.fullmatch, words))
        return self.text(text) if plain else HIDDEN

    def _summary(self, line: str) -> str:
        name, colon, value = line.rstrip("\n").partition(":")
        end = line[len(line.rstrip("\n")) :]
        said = value.strip()
        figure = _NUMBER.fullmatch(said) and not name.strip().endswith("name")
        if figure or self._is_own(said):
            return f"{self._prose(name)}{colon}{value}{end}"
        return f"{self._prose(name)}{colon} {HIDDEN}{end}" if colon else self._prose(line)

    def _answers(self, line: str) -> str:
        return line if _ANSWER.fullmatch(line.strip()) and not self._long.search(line) else ""


def _day(value: object) -> str:
    """Return the day of a time by UTC."""
    try:
        return f"{datetime.fromisoformat(str(value).removesuffix('Z')).date()}T00:00:00Z"
    except ValueError:
        return HIDDEN


def _day_of_wall(value: object) -> str:
    """Return the day by UTC of a time by the clock on the wall, which LoadGen takes for UTC.

    Together with that of the upload it would reveal the location of the machine.
    """
    try:
        return _day(_by_utc(datetime.fromisoformat(str(value).removesuffix("Z"))))
    except (ValueError, OverflowError):
        return HIDDEN


def _day_of_power(value: object) -> str:
    """As ``_day_of_wall``, in the form that is compared with a power meter's log."""
    try:
        day = _by_utc(datetime.strptime(str(value), _POWER)).date()
    except (ValueError, OverflowError):
        return HIDDEN
    return f"{day:%m-%d-%Y} 00:00:00.000"


def _by_utc(local: datetime) -> datetime:
    return local.astimezone(timezone.utc).replace(tzinfo=None)


def _hidden(_: object) -> str:
    return HIDDEN


_TIMES: Mapping[str, Callable[[object], str]] = {
    "test_datetime": _day_of_wall,
    "power_begin": _day_of_power,
    "power_end": _day_of_power,
    "loadgen_build_date_utc": _day,
    # With the same time in UTC it reveals the location of the machine that has built LoadGen.
    "loadgen_build_date_local": _hidden,
    "loadgen_git_commit_date": _day,
}
"""Values that are times: no other may look like one."""


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40}", value) is not None


def _any_of(forms: Iterable[str]) -> re.Pattern[str]:
    parts = [_bounded(form) for form in sorted(forms, key=len, reverse=True)]
    return re.compile("|".join(parts) or "(?!)", re.IGNORECASE)


def _bounded(form: str) -> str:
    word = re.escape(form)
    return word if len(form) >= _SHORT else rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])"


def _forms(word: str) -> Iterator[str]:
    """Yield a word as it is and as other programs write it: escaped, in hexadecimal, in base64."""
    word = word.strip()
    if len(word) < 2:
        return
    data = word.encode("utf-8", "surrogateescape")
    yield from (word, quote(data, safe=""), json.dumps(word)[1:-1])
    if len(data) < _SHORT:
        return
    yield data.hex()
    for skipped in range(3):
        # The characters around a word in a text change its first and last signs.
        text = base64.b64encode(b"\0" * skipped + data).decode("ascii").rstrip("=")
        middle = text[(0, 2, 3)[skipped] : None if (len(data) + skipped) % 3 == 0 else -1]
        yield from (middle, middle.replace("+", "-").replace("/", "_"))


def _of_host() -> Iterator[str]:
    for name in (socket.gethostname(), platform.node(), read_or_empty("/etc/hostname")):
        yield name
        yield name.strip().partition(".")[0]
    with suppress(KeyError, OSError, ImportError):
        yield getpass.getuser()
        yield from _of_person()
    yield str(Path.home())
    yield Path.home().name
    for path in Path("/sys/class/net").glob("*/address"):
        address = read_or_empty(path).strip()
        if address.strip("0:"):
            yield from (address, address.replace(":", ""), address.replace(":", "-"))
    yield from re.findall(r"(?<=-- )[\d.]{7,}", read_or_empty("/proc/net/fib_trie"))
    yield read_or_empty("/etc/machine-id")
    yield read_or_empty("/proc/sys/kernel/random/boot_id")
    yield read_or_empty("/proc/device-tree/serial-number").strip("\0")
    yield from re.findall(r"(?<=Serial\t\t: )\w+", read_or_empty("/proc/cpuinfo"))
    # The name of a container is where its files are mounted from.
    yield from re.findall(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", read_or_empty(_MOUNTS))
    yield from (read_or_empty(Path("/sys/class/dmi/id", name)) for name in _SERIALS)


def _of_person() -> Iterator[str]:
    """Yield the name that the account has, as a whole and in parts that are no common words."""
    import pwd

    full_name = pwd.getpwnam(getpass.getuser()).pw_gecos.split(",")[0].strip()
    if full_name.lower() not in ("", "root", "ubuntu", "debian"):
        yield full_name
        yield from (part for part in full_name.split() if len(part) >= _SHORT)


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if name in _PLACES or len(value) >= (_SECRET if is_secret(name) else _VALUE):
            yield value
