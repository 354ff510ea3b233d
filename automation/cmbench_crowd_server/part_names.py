"""Whether the name of a processor or an accelerator is made of the words that makers use.

A name is what its sender says. One with other words, such as praise, waits for a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cmbench.lib.secrecy import HIDDEN

_MAKERS = """
    alibaba amazon amd ampere annapurna apple arm aws broadcom cambricon cerebras fujitsu google
    graphcore habana huawei hygon ibm intel loongson mediatek microsoft nvidia qualcomm raspberry
    rockchip samsung sifive tenstorrent xilinx zhaoxin
"""
_PRODUCTS = """
    ada adreno agx air altra arc atom athlon blackwell book celeron coral core cortex dgx dimensity
    drive elite epyc exynos flex gaudi geforce goya grace graviton gtx hgx hopper inferentia
    instinct iris jetson kunpeng lovelace mali max mi mini nano navi neoverse neuron nx opteron orin
    pentium phi pi pro quadro radeon rtx ryzen snapdragon studio super superchip tegra tesla thor
    threadripper titan tpu trainium turing uhd ultra vega volta xavier xe xeon
"""
_SERIES = """
    alder bergamo broadwell bronze cascade cascadelake emerald forest genoa gold granite haswell
    ice icelake knights lake landing meteor milan naples platinum raptor rapids ridge rome sapphire
    siena sierra silver skylake tiger turin
"""
_KINDS = """
    accelerator accelerators and apu b center cpu data e edge embedded engineering ghz gpu graphics
    hbm k kvm laptop mhz mobile model npu nvl oam pcie plus power processor processors qemu rev
    risc sample series server soc sxm unit v vcpu virtual with x
"""
_WORDS = frozenset(f"{_MAKERS} {_PRODUCTS} {_SERIES} {_KINDS}".split())
_MARKS = re.compile(r"\((?:r|tm|c)\)")
_X86 = re.compile(r"\b(intel|amd|xeon|epyc|ryzen)\b")
_ARM = re.compile(r"\b(apple m\d|neoverse|cortex|graviton|kunpeng|raspberry|ampere altra)")


def unknown_words(name: str) -> Iterator[str]:
    """Yield the words of a name that are neither those of makers nor have a digit."""
    for word in _MARKS.sub(" ", name.lower()).replace(HIDDEN, " ").split():
        for part in re.split(r"[^a-z0-9]+", word):
            if part and part not in _WORDS and not any(map(str.isdigit, part)):
                yield part


def is_of_another_architecture(name: str, architecture: str) -> bool:
    """Return whether no processor of such a name has this instruction set."""
    arm = architecture.startswith(("aarch64", "arm"))
    x86 = architecture in ("x86_64", "AMD64", "i686", "x86")
    is_x86, is_arm = (pattern.search(name.lower()) for pattern in (_X86, _ARM))
    return bool(architecture) and bool((is_x86 and not x86) or (is_arm and not arm))
