"""Whether the parts of a machine that a manifest describes fit each other, and its earlier ones.

No log proves them: what contradicts itself waits for a person, the rest is shown as reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cmbench_crowd import manifest as m
from cmbench_crowd_server import part_names

_UNUSUAL = (
    ("sockets", 16, "sockets"),
    ("cores", 1024, "cores"),
    ("memory_gb", 65_536, "GB of memory"),
    ("accelerators", 72, "accelerators"),
)
"""More than any node of a published result has."""
_THREADS = 2
"""Threads of a core, which operating systems count as cores, of processors that are named so."""
_MOST_SOCKETS = 2
"""Of processors with so many cores in their name, where nobody says how many there are."""
_LEAST_GB = 0.25
_CORES = re.compile(r"\b(\d{1,3})-core\b", re.IGNORECASE)
_ALONE = re.compile(r"\b(apple m\d|ryzen|raspberry|core\W.*\bi\d|snapdragon|celeron|atom)")
"""Processors of which no machine has two."""
_SMALL, _SMALL_CORES = re.compile(r"\b(apple m\d|raspberry|core\W.*\bi\d|snapdragon)"), 36
_RACK = re.compile(r"\b(gb\d00|nvl\d*)\b")
_OUTSIDE_RACKS = 32
_ONE_CHIP = re.compile(r"\b(laptop|jetson|iris|uhd|apple m\d)\b")
_MAKERS_OF_DEVICES = {
    "cuda": re.compile(
        r"nvidia|geforce|rtx|gtx|tesla|quadro|jetson|\b(?:[ahlvt]\d{1,3}|gb?\d00)\b"
    ),
    "rocm": re.compile(r"\b(amd|instinct|radeon|mi\d{2,3}x?)\b"),
    "xpu": re.compile(r"\b(intel|arc|flex|max|iris|uhd)\b"),
    **dict.fromkeys(("inf1", "inf2", "trn1"), re.compile(r"aws|inferentia|trainium|neuron")),
}
_COUNTS = ("sockets", "cores", "accelerators")


def unusual(manifest: m.Manifest) -> Iterator[str]:
    """Yield what no machine has, and what two fields of its description contradict."""
    system = manifest.system
    yield from _unusual_names(system)
    yield from _unusual_numbers(system)
    yield from _contradictions(system)
    yield from _of_device(manifest)


def changed(system: m.ManifestSystem, earlier: Iterable[m.ManifestSystem]) -> Iterator[str]:
    """Yield that a device has described the same processor with other parts before."""
    for before in earlier:
        names = ["cpu", *(["accelerator"] * bool(system.accelerator and before.accelerator))]
        if any(getattr(before, name) != getattr(system, name) for name in names):
            continue
        for name in _COUNTS[: 1 + len(names)]:
            now, then = getattr(system, name), getattr(before, name)
            if now and then and now != then:
                yield f"this device has {now:,} {name}, in an earlier result it had {then:,}"
                return


def _unusual_names(system: m.ManifestSystem) -> Iterator[str]:
    for title, name in (("processor", system.cpu), ("accelerator", system.accelerator)):
        if unknown := list(dict.fromkeys(part_names.unknown_words(name))):
            yield f"its {title} {name!r} has words that makers do not use: {', '.join(unknown)}"
    if part_names.is_of_another_architecture(system.cpu, system.architecture):
        yield f"its processor {system.cpu!r} is not of the architecture {system.architecture}"


def _unusual_numbers(system: m.ManifestSystem) -> Iterator[str]:
    for field, most, words in _UNUSUAL:
        if (getattr(system, field) or 0) > most:
            yield f"{getattr(system, field):,} {words} in a node are more than machines have"
    if 0 < system.memory_gb < _LEAST_GB:
        yield f"{system.memory_gb:g} GB of memory are less than machines have"
    if system.nodes > 1:
        yield f"it is of {system.nodes:,} nodes: no log shows how many took part"


def _contradictions(system: m.ManifestSystem) -> Iterator[str]:
    """Yield numbers of parts that their names do not permit."""
    cpu, part = system.cpu.lower(), system.accelerator.lower()
    if system.cores and system.cores < system.sockets:
        yield f"it has {system.cores} cores in {system.sockets} sockets"
    if _ALONE.search(cpu) and system.sockets > 1:
        yield f"no machine has {system.sockets} of its processor {system.cpu!r}"
    most, named = _most_cores(system, cpu)
    if named and most < system.cores <= _UNUSUAL[1][1]:
        yield f"{system.cores} cores are more than {system.cpu!r} has"
    many = system.accelerators or 0
    if part and not many:
        yield f"it does not say how many {system.accelerator} it has"
    most = 1 if _ONE_CHIP.search(part) else _OUTSIDE_RACKS
    if not _RACK.search(part) and most < many <= _UNUSUAL[3][1]:
        yield f"no node has {many} of {system.accelerator}"


def _most_cores(system: m.ManifestSystem, cpu: str) -> tuple[int, bool]:
    """Return how many cores a node can have by the name of its processor, if that says it."""
    if match := _CORES.search(cpu):
        return int(match[1]) * _THREADS * (system.sockets or _MOST_SOCKETS), True
    return _SMALL_CORES, _SMALL.search(cpu) is not None


def _of_device(manifest: m.Manifest) -> Iterator[str]:
    """Yield that a device of this kind is not that of the maker, or of the operating system."""
    device, part = manifest.config.device, manifest.system.accelerator
    maker = _MAKERS_OF_DEVICES.get(device)
    # Of a name that nobody knows its words are told.
    is_known = part and not any(part_names.unknown_words(part))
    if is_known and maker and not maker.search(part.lower()):
        yield f"it was computed by {device}, which {part} is not"
    os = manifest.software.os if manifest.software else ""
    if os.startswith(("macOS", "Darwin")) and (device in _MAKERS_OF_DEVICES):
        yield f"it was computed by {device}, which {os} does not have"
