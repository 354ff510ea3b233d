"""The fields of a system description, and what each stands for.

Source: the field lists of the official submission checker and the submission rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlperf.catalog import Division

STATUSES = ("available", "preview", "rdi")
TYPES = ("edge", "datacenter", "datacenter,edge", "edge,datacenter")
UNKNOWN = "N/A"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, whether it may not be empty, and where a person finds its value."""

    name: str
    needed: bool
    hint: str = ""
    whole_number: bool = False


FIELDS = (
    Field("division", True),
    Field("submitter", True),
    Field("status", True, "available, preview or rdi (research, development or internal)"),
    Field("system_name", True, "what a shop or a data sheet calls the machine"),
    Field("system_type", True, "edge, datacenter or datacenter,edge"),
    Field("system_type_detail", False, "for example: laptop, workstation, rack server"),
    Field("number_of_nodes", True, "machines that work together on one result", True),
    Field("host_processor_model_name", True, "lscpu: Model name"),
    Field("host_processors_per_node", True, "lscpu: Socket(s)"),
    Field("host_processor_core_count", True, "lscpu: Core(s) per socket"),
    Field("host_processor_frequency", False, "lscpu: CPU max MHz"),
    Field("host_processor_caches", False, "lscpu --caches"),
    Field("host_processor_interconnect", False, "between several processors, for example UPI"),
    Field("host_memory_capacity", True, "free --giga"),
    Field("host_memory_configuration", True, "sudo dmidecode --type memory: slots, size, type"),
    Field("host_storage_capacity", True, "lsblk: SIZE"),
    Field("host_storage_type", True, "SSD, NVMe SSD or HDD"),
    Field("host_networking", True, "for example: Gig Ethernet, Wi-Fi, Infiniband"),
    Field("host_network_card_count", True, "number and kind of network cards"),
    Field("host_networking_topology", True, "N/A for a single machine"),
    Field("accelerators_per_node", True, "0 where none takes part", True),
    Field("accelerator_model_name", True, "nvidia-smi --list-gpus"),
    Field("accelerator_frequency", False),
    Field("accelerator_host_interconnect", True, "for example: PCIe Gen5 x16"),
    Field("accelerator_interconnect", True, "for example: NVLink; N/A for one"),
    Field("accelerator_interconnect_topology", False),
    Field("accelerator_memory_capacity", True, "nvidia-smi: memory of each"),
    Field("accelerator_memory_configuration", True, "for example: HBM3, GDDR6"),
    Field("accelerator_on-chip_memories", False),
    Field("cooling", True, "air, liquid or passive"),
    Field("framework", True),
    Field("operating_system", True),
    Field("other_software_stack", True),
    Field("hw_notes", False),
    Field("sw_notes", False),
)
NETWORK_FIELDS = (
    Field("is_network", True, "true"),
    Field("network_type", True, "for example: Ethernet"),
    Field("network_media", True, "for example: copper, optical"),
    Field("network_rate", True, "for example: 100 Gb/s"),
    Field("nic_loadgen", True, "network card of the LoadGen node"),
    Field("number_nic_loadgen", True),
    Field("net_software_stack_loadgen", True),
    Field("network_protocol", True, "for example: HTTP over TCP"),
    Field("number_connections", True),
    Field("nic_sut", True, "network card of the system under test"),
    Field("number_nic_sut", True),
    Field("net_software_stack_sut", True),
    Field("network_topology", True),
)
# Written only where it is told: round 6.1 wants it of systems whose power was measured.
POWER_CAPACITY = Field("system_power_capacity", False, "watts, from the power supplies' nameplates")


def of_division(division: str) -> tuple[Field, ...]:
    """The fields that a division asks for."""
    return FIELDS + NETWORK_FIELDS if division == Division.NETWORK else FIELDS
