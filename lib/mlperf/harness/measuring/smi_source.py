"""Readings of AMD's and Intel's GPUs by ``amd-smi`` and ``xpu-smi``.

Both print a line of values per GPU and interval, as CSV below a heading. One process of the tool
runs beside a run; starting one for every reading would take half a second of a core.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, NamedTuple

from .gpu import GpuReading
from .gpu_log import GpuLog, NoTelemetryError

MIB = 2**20
# What tools write where they do not know a value.
UNKNOWN = ("", "N/A", "n/a", "NA", "None")
UNTHROTTLED = ("not throttled", "unthrottled", "none", "0", *(word.lower() for word in UNKNOWN))


class SmiTool(NamedTuple):
    """A tool: ways to call it, newest first, and which of its columns has which value.

    Columns are compared by how their heading begins, in small letters. ``violations`` are columns
    of per cent of the time in which something slowed the GPU, and what that was.
    """

    calls: tuple[tuple[str, ...], ...]
    key: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    violations: Mapping[str, str] = {}


_MONITOR = ("amd-smi", "monitor", "--csv", "-p", "-t", "-u", "-m", "-v", "-w", "{interval}")
AMD = SmiTool(
    calls=((*_MONITOR, "-V"), _MONITOR),
    key=("gpu",),
    columns={
        "power_w": ("power_usage", "power"),
        "temperature_c": ("hotspot_temperature", "gpu_t"),
        "clock_mhz": ("gfx_clk", "gfx_clock"),
        "busy": ("gfx", "gfx%", "gfx_util"),
        "memory_mib": ("vram_used",),
    },
    violations={
        "pviol": "its power limit",
        "tviol": "its temperature limit",
        "phot_tviol": "heat of the processor",
        "vr_tviol": "heat of the voltage regulators",
        "hbm_tviol": "heat of its memory",
    },
)
INTEL = SmiTool(
    calls=(("xpu-smi", "dump", "-d", "-1", "-m", "0,1,2,3,8,18,35", "-i", "{interval}"),),
    key=("deviceid",),
    columns={
        "power_w": ("gpu power (w)",),
        "temperature_c": ("gpu core temperature",),
        "clock_mhz": ("gpu frequency (mhz)",),
        "busy": ("gpu utilization (%)", "average % utilization"),
        "memory_mib": ("gpu memory used (mib)",),
        "energy_j": ("gpu energy consumed (j)",),
        "reasons": ("throttle reason",),
    },
)


class SmiTable:
    """The lines of a tool as readings: headings may come again, and lines of other kinds."""

    def __init__(self, tool: SmiTool) -> None:
        self._tool = tool
        self._heading: list[str] = []
        self.odd = ""

    def reading(self, line: str) -> tuple[str, GpuReading] | None:
        """Return the key of a GPU and its reading; None for a heading or any other line."""
        words = [word.strip() for word in line.split(",")]
        small = [word.lower() for word in words]
        if any(word in self._tool.key for word in small):
            self._heading = small
            return None
        if not self._heading or len(words) != len(self._heading):
            self.odd = self.odd or line.strip()
            return None
        row = dict(zip(self._heading, words, strict=True))
        key = next((row[name] for name in self._tool.key if name in row), "")
        return (key, self._values(row)) if key.isdigit() else None

    def _values(self, row: Mapping[str, str]) -> GpuReading:
        tool = self._tool
        cells = {name: _cell(row, starts) for name, starts in tool.columns.items()}
        busy, memory = _number(cells.get("busy")), _number(cells.get("memory_mib"))
        throttle = cells.get("reasons", "").lower()
        reasons = [] if throttle in UNTHROTTLED else [throttle]
        reasons += [why for name, why in tool.violations.items() if _number(row.get(name))]
        return GpuReading(
            at_s=time.monotonic(),
            clock_mhz=_number(cells.get("clock_mhz")),
            temperature_c=_number(cells.get("temperature_c")),
            power_w=_number(cells.get("power_w")),
            memory_bytes=None if memory is None else int(memory * MIB),
            busy=None if busy is None else busy / 100,
            energy_j=_number(cells.get("energy_j")),
            reasons=tuple(reasons),
        )


def _cell(row: Mapping[str, str], starts: Sequence[str]) -> str:
    """Return the value of the column with one of these headings, or that begins with one."""
    exact = next((row[start] for start in starts if start in row), None)
    if exact is not None:
        return exact
    return next(
        (row[n] for start in starts for n in row if " " in start and n.startswith(start)), ""
    )


def _number(text: str | None) -> float | None:
    """Return the number of ``412``, ``412 W`` or ``47.0 C``; None for another text."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a tool; one that is written in Python would otherwise keep its lines for long."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


class SmiSource:
    """The GPUs that a tool lists."""

    def __init__(
        self, tool: SmiTool, shown: str = "", numbers: Sequence[int] | None = None
    ) -> None:
        self._tool = tool
        # Numbers with commas between, as drivers' variables have them; in other words it is all.
        visible = [word.strip() for word in shown.split(",") if word.strip().isdigit()]
        if numbers is not None:
            own = visible or [str(number) for number in range(max(numbers, default=0) + 1)]
            visible = [own[number] for number in numbers if number < len(own)]
        self._shown = set(visible)
        self._process: subprocess.Popen[str] | None = None

    def follow(self, stop: threading.Event, log: GpuLog, interval_s: float) -> None:
        """See ``gpu_watch.GpuSource``: older tools do not know every flag of the newest call."""
        problem = ""
        for call in self._tool.calls:
            table = SmiTable(self._tool)
            problem = self._run(call, table, log, interval_s, stop)
            if not log.is_empty:
                return
            problem = f"{problem}: {table.odd}" if table.odd else problem
            if stop.is_set():
                break
        raise NoTelemetryError(problem)

    def close(self) -> None:
        """See ``gpu_watch.GpuSource``."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _run(
        self,
        call: Sequence[str],
        table: SmiTable,
        log: GpuLog,
        interval_s: float,
        stop: threading.Event,
    ) -> str:
        """Read a tool until it ends; return why there is nothing, if so."""
        name = os.path.basename(call[0])
        try:
            self._process = _started([w.format(interval=max(1, round(interval_s))) for w in call])
        except OSError as error:
            return f"{name} cannot be started ({error.strerror})"
        if stop.is_set():
            self.close()
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            self._read(lines, table, log)
        status = self._process.wait()
        if stop.is_set():
            return f"{name} printed no values in time"
        return f"{name} ended with status {status}" if status else f"{name} printed no values"

    def _read(self, lines: Iterable[str] | IO[str], table: SmiTable, log: GpuLog) -> None:
        for line in lines:
            read = table.reading(line)
            if read and (not self._shown or read[0] in self._shown):
                log.add(*read)
