"""Facts about machines, read from this one and from recorded trees of others."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmbench.lib.host import machine, system

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def uname(machine: str = "x86_64", system: str = "Linux") -> os.uname_result:
    return os.uname_result((system, "node7", "6.1.0-18", "#1 SMP", machine))


UBUNTU = {
    "etc/os-release": 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n\n# x\n',
    "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
    "etc/ld.so.conf.d/cuda.conf": "/usr/local/cuda-12.2/targets/x86_64-linux/lib\n/not/there\n",
    "usr/local/cuda-12.2/targets/x86_64-linux/lib/libcudart.so": "",
    "usr/lib/x86_64-linux-gnu/libc.so": "",
    ".dockerenv": "",
}


def test_a_recorded_ubuntu(tmp_path: Path) -> None:
    facts = system.os_facts(write(tmp_path, UBUNTU), uname())
    assert (facts.kind, facts.flavor, facts.flavor_like) == ("linux", "ubuntu", "debian")
    assert (facts.version, facts.kernel, facts.machine, facts.bits) == (
        "22.04",
        "6.1.0-18",
        "x86_64",
        64,
    )
    assert facts.package_manager == "apt"
    assert facts.node == "node7"
    assert facts.uname == "Linux node7 6.1.0-18 #1 SMP x86_64"
    assert facts.in_container
    assert facts.library_folders == (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/local/cuda-12.2/targets/x86_64-linux/lib",
        "/usr/lib",
    )


@pytest.mark.parametrize(
    ("release", "manager"),
    [
        ("ID=debian\n", "apt"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf"),
        ('ID="amzn"\nID_LIKE="fedora"\n', "yum"),
        ("ID=arch\n", "pacman"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper"),
        ("ID=alpine\n", "apk"),
        ("ID=void\n", ""),
        ("", ""),
    ],
)
def test_package_managers(tmp_path: Path, release: str, manager: str) -> None:
    facts = system.os_facts(write(tmp_path, {"usr/lib/os-release": release}), uname("aarch64"))
    assert facts.package_manager == manager
    assert facts.bits == 64
    assert not facts.in_container


def test_a_mac_reads_no_linux_files(tmp_path: Path) -> None:
    facts = system.os_facts(write(tmp_path, UBUNTU), uname("arm64", "Darwin"))
    assert facts.kind == "darwin"
    assert facts.library_folders == ()


def x86_block(number: int, package: int, core: int) -> str:
    return (
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n"
        "model name\t: Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz\nstepping\t: 6\n"
        f"microcode\t: 0xd0003a5\nphysical id\t: {package}\ncore id\t\t: {core}\n"
        "flags\t\t: fpu avx512f amx_tile\nbugs\t\t: spectre_v1 taa\nTLB size\t: 1 4K pages\n\n"
    )


def cache_files(cpu: str) -> dict[str, str]:
    rows = [
        ("1", "Data", "48K", "0,64"),
        ("1", "Instruction", "32K", "0,64"),
        ("2", "Unified", "1280K", "0,64"),
        ("3", "Unified", "49152K", "0-31,64-95"),
    ]
    return {
        f"{cpu}/cache/index{number}/{name}": f"{value}\n"
        for number, row in enumerate(rows)
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True)
    }


def test_a_recorded_server_with_two_sockets(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": "".join(x86_block(n, (n % 64) // 32, n % 32) for n in range(128)),
            f"{cpus}/online": "0-127\n",
            f"{cpus}/cpu0/cpufreq/cpuinfo_max_freq": "3400000\n",
            f"{cpus}/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/node/online": "0-1\n",
            **cache_files(f"{cpus}/cpu0"),
        },
    )
    facts = machine.cpu_facts(root, "x86_64")
    assert (facts.logical_cores, facts.physical_cores, facts.sockets) == (128, 64, 2)
    assert (facts.threads_per_core, facts.numa_nodes, facts.max_mhz) == (2, 2, 3400.0)
    assert facts.vendor == "GenuineIntel"
    assert facts.model_name == "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz"
    assert (facts.family, facts.model, facts.stepping) == ("6", "106", "6")
    assert facts.flags == ("fpu", "avx512f", "amx_tile")
    assert facts.bugs == ("spectre_v1", "taa")
    assert facts.governor == "performance"
    assert facts.fields["TLB size"] == "1 4K pages"
    assert [str(cache) for cache in facts.caches] == [
        "3 MiB (64 instances)",
        "2 MiB (64 instances)",
        "80 MiB (64 instances)",
        "96 MiB (2 instances)",
    ]


def test_a_recorded_arm64_server(tmp_path: Path) -> None:
    block = (
        "processor\t: {}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve i8mm bf16\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n"
        "CPU revision\t: 1\n\n"
    )
    cpus = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": "".join(block.format(n) for n in range(4)) + "Hardware\t: Board\n",
        f"{cpus}/online": "0-3\n",
        "sys/devices/system/node/online": "0\n",
    }
    for number in range(4):
        files[f"{cpus}/cpu{number}/topology/core_id"] = f"{number}\n"
        files[f"{cpus}/cpu{number}/topology/physical_package_id"] = "-1\n"
    facts = machine.cpu_facts(write(tmp_path, files), "aarch64")
    assert (facts.vendor, facts.model_name, facts.architecture) == ("ARM", "Neoverse-V1", "aarch64")
    assert (facts.logical_cores, facts.physical_cores, facts.sockets) == (4, 4, 1)
    assert facts.threads_per_core == 1
    assert facts.flags == ("fp", "asimd", "sve", "i8mm", "bf16")
    assert (facts.family, facts.model, facts.stepping) == ("8", "0xd40", "1")
    assert (facts.max_mhz, facts.governor, facts.caches) == (0.0, "", ())


@pytest.mark.parametrize(
    ("implementer", "part", "names"),
    [
        ("0x41", "0xd4f", ("ARM", "Neoverse-V2")),
        ("0x41", "0xd0c", ("ARM", "Neoverse-N1")),
        ("0x41", "0xd0b", ("ARM", "Cortex-A76")),
        ("0xc0", "0xac3", ("Ampere", "Ampere-1")),
        ("0x51", "0x001", ("Qualcomm", "Oryon")),
        ("0x41", "0xfff", ("ARM", "part 0xfff")),
        ("0x99", "0x001", ("0x99", "part 0x001")),
        ("odd", "", ("odd", "")),
    ],
)
def test_arm_names(tmp_path: Path, implementer: str, part: str, names: tuple[str, str]) -> None:
    text = f"processor\t: 0\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n"
    facts = machine.cpu_facts(write(tmp_path, {"proc/cpuinfo": text}), "aarch64")
    assert (facts.vendor, facts.model_name) == names


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        # Rockchip RK3399, Apple M1, Snapdragon 8cx Gen 3: kinds of cores and their order as in the
        # device trees of Linux (rk3399, t8103, sc8280xp), the numbers as in its cputype.h.
        ((("0x41", "0xd03", 4), ("0x41", "0xd08", 2)), ("ARM", "Cortex-A53 + Cortex-A72")),
        ((("0x61", "0x022", 4), ("0x61", "0x023", 4)), ("Apple", "Icestorm-M1 + Firestorm-M1")),
        ((("0x41", "0xd4b", 4), ("0x41", "0xd4c", 4)), ("ARM", "Cortex-A78C + Cortex-X1C")),
    ],
)
def test_big_and_little_cores(
    tmp_path: Path, kinds: tuple[tuple[str, str, int], ...], names: tuple[str, str]
) -> None:
    cpus, blocks, files, number = "sys/devices/system/cpu", "", {}, 0
    for implementer, part, count in kinds:
        for core in range(count):
            ids = f"CPU implementer\t: {implementer}\nCPU part\t: {part}\n"
            blocks += f"processor\t: {number}\nFeatures\t: fp asimd\n{ids}\n"
            topology = f"{cpus}/cpu{number}/topology"
            # The numbers of cores begin again in each cluster.
            files[f"{topology}/core_id"] = f"{core}\n"
            files[f"{topology}/physical_package_id"] = "0\n"
            files[f"{topology}/thread_siblings_list"] = f"{number}\n"
            number += 1
    files |= {"proc/cpuinfo": blocks, f"{cpus}/online": f"0-{number - 1}\n"}
    facts = machine.cpu_facts(write(tmp_path, files), "aarch64")
    assert (facts.vendor, facts.model_name) == names
    assert (facts.logical_cores, facts.physical_cores, facts.sockets) == (number, number, 1)
    assert facts.threads_per_core == 1


@dataclass(frozen=True)
class Arm:
    """One Arm machine: each kind of its cores as ``implementer part variant revision`` and count.

    ``page`` is where people show its ``/proc/cpuinfo`` or ``lscpu``; what that leaves out (which
    core is in which package, clocks where none are told) is made up here, as a kernel writes it.
    """

    page: str
    kinds: tuple[tuple[str, int], ...]
    features: str
    names: tuple[str, str]
    sockets: int = 1
    nodes: str = "0"
    nodes_of_cores: str = "0"
    megahertz: tuple[int, ...] = ()


ARMS = {
    "Graviton2": Arm(
        "archspec/archspec-json#41",
        (("0x41 0xd0c 0x3 1", 64),),
        "fp asimd aes atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp ssbs",
        ("ARM", "Neoverse-N1"),
    ),
    "Graviton3, c7g.2xlarge": Arm(
        "archspec/archspec-json#51",
        (("0x41 0xd40 0x1 1", 8),),
        "fp asimd aes atomics asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs",
        ("ARM", "Neoverse-V1"),
    ),
    "Graviton4 (made up of Grace's numbers; two sockets as AWS tells of its largest)": Arm(
        "intel/PerfSpect#373",
        (("0x41 0xd4f 0x0 1", 192),),
        "fp asimd sve sve2 i8mm bf16",
        ("ARM", "Neoverse-V2"),
        sockets=2,
        nodes="0-1",
        nodes_of_cores="0-1",
    ),
    "Ampere Altra Q80-30": Arm(
        "nviennot/core-to-core-latency#49",
        (("0x41 0xd0c 0x3 1", 80),),
        "fp asimd aes atomics fphp asimdhp asimddp ssbs",
        ("ARM", "Neoverse-N1"),
        megahertz=(3000,),
    ),
    "Grace Hopper: the GPU's memory is eight nodes": Arm(
        "archspec/archspec-json#83 and bytedance/xpu-perf#129",
        (("0x41 0xd4f 0x0 0", 72),),
        "fp asimd sve sve2 svebf16 i8mm bf16 dgh",
        ("ARM", "Neoverse-V2"),
        nodes="0-8",
        megahertz=(3474,),
    ),
    "Cobalt 100, in a runner of GitHub": Arm(
        "EESSI/software-layer#1100",
        (("0x41 0xd49 0x0 0", 4),),
        "fp asimd sve sve2 svei8mm svebf16 i8mm bf16",
        ("ARM", "Neoverse-N2"),
    ),
    "Raspberry Pi 5": Arm(
        "hrw/arm-socs-table#96",
        (("0x41 0xd0b 0x4 1", 4),),
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimddp",
        ("ARM", "Cortex-A76"),
        megahertz=(2400,),
    ),
    "Snapdragon X": Arm(
        "hrw/arm-socs-table#124",
        (("0x51 0x001 0x1 1", 8),),
        "fp asimd aes atomics asimddp flagm2 frint i8mm bf16 rng afp rpres",
        ("Qualcomm", "Oryon"),
    ),
    "Snapdragon X2 Elite": Arm(
        "FEX-Emu/FEX#5426",
        (("0x51 0x002 0x1 1", 12),),
        "fp asimd sve sve2 svei8mm svebf16 i8mm bf16",
        ("Qualcomm", "Oryon-3"),
    ),
    "Mac mini M1 under Asahi Linux": Arm(
        "fastfetch-cli/fastfetch#1529",
        (("0x61 0x022 0x1 1", 4), ("0x61 0x023 0x1 1", 4)),
        "fp asimd aes atomics jscvt fcma sha3 asimddp asimdfhm",
        ("Apple", "Icestorm-M1 + Firestorm-M1"),
        megahertz=(2064, 3204),
    ),
    "a guest on a Mac with an M3 Max": Arm(
        "Dr-Noob/cpufetch#229",
        (("0x61 0x000 0x0 0", 4),),
        "fp asimd evtstrm aes atomics jscvt fcma sha3 asimddp asimdfhm flagm2 frint",
        ("Apple", "Apple virtual core"),
    ),
    "Mac with an M3 (its parts as PyTorch's cpuinfo has them)": Arm(
        "pytorch/cpuinfo#385",
        (("0x61 0x042 0x1 1", 4), ("0x61 0x043 0x1 1", 4)),
        "fp asimd aes atomics jscvt fcma sha3 asimddp asimdfhm i8mm bf16",
        ("Apple", "Sawtooth-M3 + Everest-M3"),
    ),
    "Snapdragon 685: cores of two makers": Arm(
        "hrw/arm-socs-table#174",
        (("0x51 0x801 0xa 4", 4), ("0x41 0xd09 0x1 0", 4)),
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid",
        ("Qualcomm", "Kryo-2XX-Silver + Cortex-A73"),
    ),
    "A64FX: four nodes in one package": Arm(
        "libxsmm/libxsmm#737",
        (("0x46 0x001 0x1 0", 48),),
        "fp asimd evtstrm sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm fcma dcpop sve",
        ("FUJITSU", "A64FX"),
        nodes="0-3",
        nodes_of_cores="0-3",
    ),
    "Agilex 5": Arm(
        "hrw/arm-socs-table#202",
        (("0x41 0xd05 0x2 0", 2), ("0x41 0xd0b 0x4 1", 2)),
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimddp",
        ("ARM", "Cortex-A55 + Cortex-A76"),
    ),
    "Dimensity 7300": Arm(
        "hrw/arm-socs-table#157",
        (("0x41 0xd05 0x2 0", 4), ("0x41 0xd41 0x1 0", 4)),
        "fp asimd aes atomics asimddp",
        ("ARM", "Cortex-A55 + Cortex-A78"),
    ),
    "Phytium S2500, two sockets of eight nodes": Arm(
        "util-linux/util-linux#1258",
        (("0x70 0x663 0x1 3", 128),),
        "fp asimd evtstrm crc32 cpuid",
        ("Phytium", "FTC663"),
        sockets=2,
        nodes="0-15",
        nodes_of_cores="0-15",
    ),
    "ThunderX, two sockets": Arm(
        "util-linux/util-linux#392",
        (("0x43 0x0a1 0x1 0", 96),),
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics",
        ("Cavium", "ThunderX-88XX"),
        sockets=2,
        nodes="0-1",
        nodes_of_cores="0-1",
    ),
}


def tree_of(arm: Arm) -> dict[str, str]:
    """The files of the kernel that tell of ``arm``."""
    cpus, nodes = "sys/devices/system/cpu", "sys/devices/system/node"
    kinds = [kind for kind, count in arm.kinds for _ in range(count)]
    clocks = dict(zip((kind for kind, _ in arm.kinds), arm.megahertz, strict=False))
    files = {f"{nodes}/online": arm.nodes, f"{nodes}/has_cpu": arm.nodes_of_cores}
    files[f"{cpus}/online"] = f"0-{len(kinds) - 1}"
    blocks = ""
    for number, kind in enumerate(kinds):
        implementer, part, variant, revision = kind.split()
        blocks += (
            f"processor\t: {number}\nBogoMIPS\t: 50.00\nFeatures\t: {arm.features}\n"
            f"CPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: {variant}\n"
            f"CPU part\t: {part}\nCPU revision\t: {revision}\n\n"
        )
        package = number * arm.sockets // len(kinds)
        topology = f"{cpus}/cpu{number}/topology"
        files[f"{topology}/core_id"] = f"{number}"
        files[f"{topology}/physical_package_id"] = f"{package}"
        files[f"{topology}/thread_siblings_list"] = f"{number}"
        if kind in clocks:
            files[f"{cpus}/cpu{number}/cpufreq/cpuinfo_max_freq"] = f"{clocks[kind]}000"
    files["proc/cpuinfo"] = blocks
    return {name: f"{text}\n" for name, text in files.items()}


@pytest.mark.parametrize("name", ARMS)
def test_arm_machines_as_public_pages_show_them(tmp_path: Path, name: str) -> None:
    arm = ARMS[name]
    cores = sum(count for _, count in arm.kinds)
    facts = machine.cpu_facts(write(tmp_path, tree_of(arm)), "aarch64")
    assert (facts.vendor, facts.model_name) == arm.names
    assert (facts.logical_cores, facts.physical_cores) == (cores, cores)
    assert (facts.sockets, facts.threads_per_core) == (arm.sockets, 1)
    assert facts.numa_nodes == len(machine.parse_list(arm.nodes_of_cores))
    assert facts.max_mhz == max(arm.megahertz, default=0)
    assert facts.flags == tuple(arm.features.split())


def test_an_empty_tree_gives_unknowns_and_no_failure(tmp_path: Path) -> None:
    cpu = machine.cpu_facts(tmp_path, "riscv64")
    assert (cpu.logical_cores, cpu.physical_cores, cpu.sockets, cpu.model_name) == (0, 0, 0, "")
    assert machine.memory_facts(tmp_path) == machine.MemoryFacts(0, 0, 0)
    assert machine.usable_cores(tmp_path).quota == 0.0


def test_a_mac_as_sysctl_describes_it() -> None:
    recorded = (
        "hw.ncpu: 10\nhw.physicalcpu: 10\nhw.logicalcpu: 10\nhw.packages: 1\n"
        "hw.l1icachesize: 131072\nhw.l1dcachesize: 65536\nhw.l2cachesize: 4194304\n"
        "machdep.cpu.brand_string: Apple M1 Pro\nmachdep.cpu.core_count: 10\n"
    )
    facts = machine.macos_cpu_facts(recorded, "arm64")
    assert (facts.vendor, facts.model_name) == ("Apple", "Apple M1 Pro")
    assert (facts.logical_cores, facts.physical_cores, facts.sockets) == (10, 10, 1)
    assert [cache.name for cache in facts.caches] == ["L1d", "L1i", "L2"]
    assert machine.macos_cpu_facts("", "arm64").logical_cores == 0


def test_limits_of_a_control_group(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/job_7/step\n",
            "proc/meminfo": "MemTotal:  16000000 kB\nMemFree: 1 kB\nMemAvailable: 8000000 kB\n",
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/job_7/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user.slice/job_7/step/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/user.slice/job_7/memory.max": "4096000000\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
        },
    )
    usable = machine.usable_cores(root)
    assert usable.quota == 1.5
    assert usable.cores == 1
    assert machine.memory_facts(root) == machine.MemoryFacts(
        16_384_000_000, 8_192_000_000, 4_096_000_000
    )


def test_limits_of_a_version_1_control_group(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=x:/\n",
            "proc/meminfo": "MemTotal:  16000000 kB\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert machine.usable_cores(root).quota == 0.5
    assert machine.usable_cores(root).cores == 1
    assert machine.memory_facts(root).limit == 0


@needs_linux
def test_affinity_is_honoured() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert machine.usable_cores().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_disks_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    mounts = "/dev/vda / ext4 rw 0 0\n/dev/vda /a\\040b ext4 rw 0 0\n/dev/vdb /gone xfs rw 0 0\n"
    write(tmp_path, {"proc/mounts": mounts + "nas:/x /nfs nfs4 rw 0 0\nproc /proc proc rw 0 0\n"})
    info = os.statvfs(tmp_path)
    assert machine.disk_capacity(tmp_path) == info.f_blocks * info.f_frsize


@given(st.sets(st.integers(0, 300)))
def test_kernel_lists(numbers: set[int]) -> None:
    text, ordered = [], sorted(numbers)
    while ordered:
        end = 1
        while end < len(ordered) and ordered[end] == ordered[0] + end:
            end += 1
        text.append(f"{ordered[0]}-{ordered[end - 1]}" if end > 1 else str(ordered[0]))
        ordered = ordered[end:]
    assert machine.parse_list(",".join(text) + "\n") == sorted(numbers)


@given(st.text())
def test_kernel_lists_of_any_text(text: str) -> None:
    machine.parse_list(text.replace("-", ""))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (25_276_518_400, "25G"), (999_600_000_000, "1.0T"), (27e12, "27T")],
)
def test_short_sizes(count: int, text: str) -> None:
    assert machine.short_size(int(count)) == text


@needs_linux
def test_this_machine_agrees_with_lscpu() -> None:
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
    except OSError:
        pytest.skip("no lscpu here")
    told = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in text.splitlines())}
    facts = machine.cpu_facts()
    # Under QEMU lscpu finds no such list.
    online = told.get("On-line CPU(s) list", "")
    assert facts.logical_cores == len(machine.parse_list(online)) or not online
    assert facts.architecture == told["Architecture"]
    if facts.architecture == "x86_64":
        assert facts.model_name == told["Model name"]
        assert str(facts.sockets) == told["Socket(s)"]
        assert str(facts.threads_per_core) == told["Thread(s) per core"]


@needs_linux
def test_facts_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    system.os_facts()
    machine.cpu_facts()
    machine.memory_facts()
    machine.usable_cores()
