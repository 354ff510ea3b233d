"""Names of Arm processors: their ``/proc/cpuinfo`` has numbers only.

The numbers are those of Linux's ``arch/arm64/include/asm/cputype.h``, and those that people have
reported of machines which it does not name (Phytium; Oryon's third generation; Apple's M3 and M4,
and its virtual machines).
"""

from __future__ import annotations

_VENDORS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "FUJITSU",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x70: "Phytium",
    0xC0: "Ampere",
}

_PARTS = {
    (0x41, 0xD02): "Cortex-A34",
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD06): "Cortex-A65",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4A): "Neoverse-E1",
    (0x41, 0xD4B): "Cortex-A78C",
    (0x41, 0xD4C): "Cortex-X1C",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD83): "Neoverse-V3AE",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0A0): "ThunderX",
    (0x43, 0x0A1): "ThunderX-88XX",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng-920",
    (0x4E, 0x004): "Carmel",
    (0x51, 0x001): "Oryon",
    (0x51, 0x002): "Oryon-3",
    (0x51, 0x800): "Kryo-2XX-Gold",
    (0x51, 0x801): "Kryo-2XX-Silver",
    (0x51, 0x802): "Kryo-3XX-Gold",
    (0x51, 0x803): "Kryo-3XX-Silver",
    (0x51, 0x804): "Kryo-4XX-Gold",
    (0x51, 0x805): "Kryo-4XX-Silver",
    # What Apple's hypervisor shows to a guest, of whatever generation the Mac is.
    (0x61, 0x000): "Apple virtual core",
    (0x61, 0x022): "Icestorm-M1",
    (0x61, 0x023): "Firestorm-M1",
    (0x61, 0x024): "Icestorm-M1-Pro",
    (0x61, 0x025): "Firestorm-M1-Pro",
    (0x61, 0x028): "Icestorm-M1-Max",
    (0x61, 0x029): "Firestorm-M1-Max",
    (0x61, 0x032): "Blizzard-M2",
    (0x61, 0x033): "Avalanche-M2",
    (0x61, 0x034): "Blizzard-M2-Pro",
    (0x61, 0x035): "Avalanche-M2-Pro",
    (0x61, 0x038): "Blizzard-M2-Max",
    (0x61, 0x039): "Avalanche-M2-Max",
    (0x61, 0x042): "Sawtooth-M3",
    (0x61, 0x043): "Everest-M3",
    (0x61, 0x044): "Sawtooth-M3-Pro",
    (0x61, 0x045): "Everest-M3-Pro",
    (0x61, 0x048): "Sawtooth-M3-Max",
    (0x61, 0x049): "Everest-M3-Max",
    (0x61, 0x052): "Donan-Sawtooth-M4",
    (0x61, 0x053): "Donan-Everest-M4",
    (0x70, 0x660): "FTC660",
    (0x70, 0x661): "FTC661",
    (0x70, 0x662): "FTC662",
    (0x70, 0x663): "FTC663",
    (0x70, 0x664): "FTC664",
    (0x70, 0x862): "FTC862",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}


def arm_names(implementer: str, part: str) -> tuple[str, str]:
    """Vendor and model name for the two hexadecimal numbers; the numbers where unknown."""
    try:
        vendor, model = int(implementer, 16), int(part, 16)
    except ValueError:
        return implementer, part
    name = _PARTS.get((vendor, model), f"part {part}")
    return _VENDORS.get(vendor, implementer), name
