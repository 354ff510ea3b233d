"""Facts about processors, memory and disks, as env keys."""

from __future__ import annotations

from typing import Any

from cmbench.lib.host import machine

# Fields of /proc/cpuinfo that are exported unchanged.
RAW_FIELDS = {
    "wp": "WRITE_PROTECT_SUPPORT",
    "fpu": "FPU_SUPPORT",
    "fpu_exception": "FPU_EXCEPTION_SUPPORT",
    "TLB size": "TLB_SIZE",
    "clflush size": "CFLUSH_SIZE",
}


# Processors that compute in bfloat16, or multiply 8-bit integers and add them up in one
# instruction, say so by one of these.
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}
INT8_FLAGS = {"amx_int8", "avx512_vnni", "avx_vnni"}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env, state = i["env"], i["state"]
    cpu = machine.cpu_facts()
    memory = machine.memory_facts()
    usable = machine.usable_cores()
    keys = cpu_keys(cpu)
    keys["CM_HOST_CPU_USABLE_CORES"] = str(usable.cores)
    if memory.total:
        keys["CM_HOST_CPU_MEMSIZE"] = str(memory.total)
        keys["CM_HOST_MEMORY_CAPACITY"] = machine.short_size(memory.total)
    keys["CM_HOST_DISK_CAPACITY"] = machine.short_size(machine.disk_capacity())
    env.update({key: value for key, value in keys.items() if value})
    state["host_device_raw_info"] = {
        "cpu": {**cpu.fields, "flags": list(cpu.flags)},
        "memory": {"total": memory.total, "limit": memory.limit},
        "usable": {
            "affinity": usable.affinity,
            "quota": usable.quota,
            "cores": usable.cores,
        },
    }
    return {"return": 0}


# Fields of the facts, as keys after CM_HOST_CPU_; 0 and empty ones are left out.
KEYS = {
    "TOTAL_CORES": "logical_cores",
    "TOTAL_LOGICAL_CORES": "logical_cores",
    "TOTAL_PHYSICAL_CORES": "physical_cores",
    "SOCKETS": "sockets",
    "THREADS_PER_CORE": "threads_per_core",
    "NUMA_NODES": "numa_nodes",
    "ARCHITECTURE": "architecture",
    "VENDOR_ID": "vendor",
    "MODEL_NAME": "model_name",
    "FAMILY": "family",
    "MICROCODE": "microcode",
    "GOVERNOR": "governor",
    "ON_LINE_CPUS_LIST": "online",
}


def cpu_keys(cpu: machine.CpuFacts) -> dict[str, str]:
    values = {
        **{name: getattr(cpu, field) for name, field in KEYS.items()},
        "PHYSICAL_CORES_PER_SOCKET": cpu.sockets and cpu.physical_cores // cpu.sockets,
        "BUGS": " ".join(cpu.bugs),
        "BFLOAT16": "yes" if BFLOAT16_FLAGS.intersection(cpu.flags) else "",
        "INT8": "yes" if INT8_FLAGS.intersection(cpu.flags) else "",
        "MAX_MHZ": f"{cpu.max_mhz:.4f}" if cpu.max_mhz else "",
        **{f"{cache.name.upper()}_CACHE_SIZE": str(cache) for cache in cpu.caches},
        **{name: cpu.fields.get(field, "") for field, name in RAW_FIELDS.items()},
    }
    return {f"CM_HOST_CPU_{name}": str(value) for name, value in values.items() if value != 0}
