"""The fields of a system description, and their meaning.

Source: the field lists of the official submission checker and the submission rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlperf.catalog import Division

STATUSES = ("available", "preview", "rdi")
TYPES = ("edge", "datacenter", "datacenter,edge", "edge,datacenter")
UNKNOWN = "N/A"


@dataclass(frozen=True, slots=True)
class SystemField:
    """One field: its name, whether it may not be empty, and where a person finds its value."""

    name: str
    needed: bool
    hint: str = ""
    whole_number: bool = False


FIELDS = (
    SystemField("division", True),
    SystemField("submitter", True),
    SystemField("status", True, "available, preview or rdi (research, development or internal)"),
    SystemField("system_name", True, "what a shop or a data sheet calls the machine"),
    SystemField("system_type", True, "edge, datacenter or datacenter,edge"),
    SystemField("system_type_detail", False, "for example: laptop, workstation, rack server"),
    SystemField("number_of_nodes", True, "machines that work together on one result", True),
    SystemField("host_processor_model_name", True, "lscpu: Model name"),
    SystemField("host_processors_per_node", True, "lscpu: Socket(s)"),
    SystemField("host_processor_core_count", True, "lscpu: Core(s) per socket"),
    SystemField("host_processor_frequency", False, "lscpu: CPU max MHz"),
    SystemField("host_processor_caches", False, "lscpu --caches"),
    SystemField(
        "host_processor_interconnect", False, "between several processors, for example UPI"
    ),
    SystemField("host_memory_capacity", True, "free --giga"),
    SystemField(
        "host_memory_configuration", True, "sudo dmidecode --type memory: slots, size, type"
    ),
    SystemField("host_storage_capacity", True, "lsblk: SIZE"),
    SystemField("host_storage_type", True, "SSD, NVMe SSD or HDD"),
    SystemField("host_networking", True, "for example: Gig Ethernet, Wi-Fi, Infiniband"),
    SystemField("host_network_card_count", True, "number and kind of network cards"),
    SystemField("host_networking_topology", True, "N/A for a single machine"),
    SystemField("accelerators_per_node", True, "0 where none takes part", True),
    SystemField("accelerator_model_name", True, "nvidia-smi --list-gpus"),
    SystemField("accelerator_frequency", False),
    SystemField("accelerator_host_interconnect", True, "for example: PCIe Gen5 x16"),
    SystemField("accelerator_interconnect", True, "for example: NVLink; N/A for one"),
    SystemField("accelerator_interconnect_topology", False),
    SystemField("accelerator_memory_capacity", True, "nvidia-smi: memory of each"),
    SystemField("accelerator_memory_configuration", True, "for example: HBM3, GDDR6"),
    SystemField("accelerator_on-chip_memories", False),
    SystemField("cooling", True, "air, liquid or passive"),
    SystemField("framework", True),
    SystemField("operating_system", True),
    SystemField("other_software_stack", True),
    SystemField("hw_notes", False),
    SystemField("sw_notes", False),
)
NETWORK_FIELDS = (
    SystemField("is_network", True, "true"),
    SystemField("network_type", True, "for example: Ethernet"),
    SystemField("network_media", True, "for example: copper, optical"),
    SystemField("network_rate", True, "for example: 100 Gb/s"),
    SystemField("nic_loadgen", True, "network card of the LoadGen node"),
    SystemField("number_nic_loadgen", True),
    SystemField("net_software_stack_loadgen", True),
    SystemField("network_protocol", True, "for example: HTTP over TCP"),
    SystemField("number_connections", True),
    SystemField("nic_sut", True, "network card of the system under test"),
    SystemField("number_nic_sut", True),
    SystemField("net_software_stack_sut", True),
    SystemField("network_topology", True),
)
# Written only where it is declared: round 6.1 requires it of systems whose power was measured.
POWER_CAPACITY = SystemField(
    "system_power_capacity", False, "watts, from the power supplies' nameplates"
)


def of_division(division: str) -> tuple[SystemField, ...]:
    """Return the fields that a division requires."""
    return FIELDS + NETWORK_FIELDS if division == Division.NETWORK else FIELDS
