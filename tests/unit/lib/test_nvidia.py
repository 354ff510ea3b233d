"""NVIDIA's GPUs and driver, read from made-up trees, recorded tools and a library made for tests.

The outputs that name a page follow the format that is shown there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import nvidia, nvml
from cmbench.lib.probe import ProbeResult, probe, which

MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
)
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n"


def nowhere(_: str) -> None:
    """A PATH without programs."""


def there(name: str) -> Path | None:
    """A PATH with the driver's tool."""
    return Path("/usr/bin") / name


@pytest.mark.parametrize(
    "path",
    [
        "dev/nvidia0",
        "dev/nvidiactl",
        "dev/nvidia-caps/nvidia-cap1",
        "dev/dxg",
        "dev/nvhost-ctrl-gpu",
        "proc/driver/nvidia/version",
    ],
)
def test_each_way_in_which_a_gpu_shows_is_a_sign(path: str, tmp_path: Path) -> None:
    assert nvidia.signs(tmp_path, nowhere) == ()
    write(tmp_path / path)
    (sign,) = nvidia.signs(tmp_path, nowhere)
    assert (tmp_path / path).is_relative_to(sign)


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_drivers_tool_is_a_sign(tmp_path: Path) -> None:
    tool = Path("/opt/nvidia-smi")
    assert nvidia.signs(tmp_path, {"nvidia-smi": tool}.get) == (str(tool),)


def test_other_devices_are_none(tmp_path: Path) -> None:
    for name in ("dri/renderD128", "kfd", "nvme0", "nvram", "neuron0"):
        write(tmp_path / "dev" / name)
    assert nvidia.signs(tmp_path, nowhere) == ()


def test_nodes_are_counted_without_those_of_the_driver(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        write(tmp_path / "dev" / name)
    assert [path.name for path in nvidia.nodes(tmp_path)] == ["nvidia0", "nvidia1"]


class Tool:
    """An nvidia-smi that knows these fields, and what it was asked."""

    def __init__(self, table: str, *, lists: str = "", cuda: str = "", unknown: str = "") -> None:
        self.table, self.lists, self.cuda, self.unknown = table, lists, cuda, unknown
        self.shows = ""
        self.asked: list[str] = []

    def __call__(self, words: Sequence[str]) -> ProbeResult:
        self.asked.append(" ".join(words))
        if len(words) == 1:
            return said(self.shows)
        if self.unknown and self.unknown in words[1]:
            return said(f'Field "{self.unknown}" is not a valid field to query.\n', 2)
        header = f"Driver Version                            : 1\nCUDA Version   : {self.cuda}\n"
        return said({"-L": self.lists, "-q": header}.get(words[1], self.table))


def said(text: str, status: int = 0) -> ProbeResult:
    return ProbeResult(("nvidia-smi",), status, text, "", 0.1)


HEAD = "index, uuid, name, driver_version, memory.total [MiB], compute_cap, mig.mode.current\n"
H100 = "{0}, GPU-{0}, NVIDIA H100 80GB HBM3, 535.104.05, 81559, 9.0, {1}\n"


def test_the_tool_shows_each_gpu_and_its_mig_instances(tmp_path: Path) -> None:
    # nvidia-smi -L of an A100-SXM4-80GB with four instances: influxdata/telegraf issue 5812.
    lists = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
        "  MIG 1g.20gb     Device  0: (UUID: MIG-ce861fb0-a248-58ce-a9a8-f9adbc22a66a)\n"
        "  MIG 1g.20gb     Device  1: (UUID: MIG-a45882f0-9215-5733-a0c1-49286ab31cb5)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
    )
    tool = Tool(HEAD + H100.format(0, "Enabled") + H100.format(1, "Disabled"), lists=lists)
    # A table as in NVIDIA's guide to MIG, which alone shows the numbers of instances.
    tool.shows = (
        "|   0  NVIDIA H100 80GB HBM3    On  | 00000000:36:00.0 Off |                   On |\n"
        "| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |\n"
        "|  0    9   0   0  |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0 |\n"
        "|                  |      0MiB / 32767MiB |           |                       |\n"
        "|  1   11   2   1  |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0 |\n"
        "|  0   10   1   1  |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0 |\n"
        "|    0   11    0      17342      C   python3                            53MiB |\n"
    )
    tool.cuda = "12.2"
    driver = nvidia.read(tmp_path, there, tool)
    assert (driver.version, driver.cuda, driver.problem) == ("535.104.05", "12.2", "")
    first, second = driver.gpus
    assert (first.index, first.uuid, first.name) == (0, "GPU-0", "NVIDIA H100 80GB HBM3")
    assert (first.memory, first.kind["compute_cap"]) == (81559, "9.0")
    uuids = [one.split(")")[0] for one in lists.split("UUID: ")[2:4]]
    assert first.mig[0] == nvidia.Mig("1g.20gb", 0, uuids[0], "9/0")
    assert first.mig[1] == nvidia.Mig("1g.20gb", 1, uuids[1], "10/1")
    assert second.mig == ()


@pytest.mark.parametrize(
    ("before", "between"),
    [
        ("Warning: persistence mode is disabled on device 0. See the README.\n", ""),
        ('warning: 7" rack, see "name\n\n', "WARNING: infoROM is corrupted at gpu 0000:18:00.0\n"),
    ],
)
def test_warnings_around_the_table_are_no_fault(before: str, between: str, tmp_path: Path) -> None:
    table = before + HEAD + between + H100.format(0, "Disabled") + between
    found = nvidia.read(tmp_path, there, Tool(table))
    assert (found.problem, len(found.gpus)) == ("", 1)
    rows = nvidia.rows_of(["index", "uuid"], tmp_path, there, Tool(table))
    assert [row["index"] for row in rows] == ["0"]


def test_a_damaged_inforom_is_no_fault_of_the_driver(tmp_path: Path) -> None:
    """nvidia-smi shows its table, and ends with a status of its own."""
    tool = Tool(HEAD + H100.format(0, "Disabled"))
    answered = nvidia.read(tmp_path, there, lambda words: replace(tool(words), status=14))
    assert (answered.problem, len(answered.gpus)) == ("", 1)


def test_an_old_driver_is_not_asked_for_what_it_does_not_know(tmp_path: Path) -> None:
    # The refusal of driver 470.182.03: huggingface/candle issue 733.
    table = "index, name, driver_version\n0, Tesla K80, 470.182.03\n"
    tool = Tool(table, unknown="compute_cap")
    driver = nvidia.read(tmp_path, there, tool)
    assert driver.gpus[0].name == "Tesla K80"
    assert "compute_cap" not in driver.gpus[0].kind
    assert "compute_cap" not in tool.asked[1]


def test_values_that_the_driver_does_not_know_are_kept_as_they_are(tmp_path: Path) -> None:
    table = "index, name, driver_version, memory.total [MiB]\n[N/A], Orin (nvgpu), 540.3.0, [N/A]\n"
    (gpu,) = nvidia.read(tmp_path, there, Tool(table)).gpus
    assert (gpu.index, gpu.memory, gpu.kind["memory.total"]) == (0, 0, "[N/A]")


@pytest.mark.parametrize(
    ("status", "text", "name"),
    [
        (18, "Failed to initialize NVML: Driver/library version mismatch\n", "mismatch"),
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make\n",
         "not-loaded"),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "no-library"),
        (0, "No devices were found\n", "no-devices"),
        (255, "Failed to initialize NVML: GPU access blocked by the operating system\n", "blocked"),
        (4, "Failed to initialize NVML: Insufficient Permissions\n", "no-permission"),
        (15, "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.\n", "lost"),
        (1, "out of paper\n", "other"),
    ],
)  # fmt: skip
def test_a_driver_that_does_not_work_says_why(
    status: int, text: str, name: str, tmp_path: Path
) -> None:
    driver = nvidia.read(tmp_path, there, lambda words: said(text, status))
    assert (driver.trouble, driver.gpus) == (name, ())
    assert driver.problem
    assert driver.remedy
    assert driver.says == (text.strip(),)


def test_the_loaded_module_is_the_version_that_counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/driver/nvidia/version", MODULE)
    tool = Tool(HEAD + H100.format(0, "Disabled").replace("535.104.05", "550.54.15"))
    assert nvidia.read(tmp_path, there, tool).version == "535.104.05"
    late = said("Failed to initialize NVML: Driver/library version mismatch\n", 18)
    assert nvidia.read(tmp_path, there, lambda _: late).says[-1] == "loaded is 535.104.05"
    write(tmp_path / "proc/driver/nvidia/version", OPEN_MODULE)
    assert nvidia.read(tmp_path, nowhere, lambda _: late).version == "550.54.15"


def test_without_tool_and_library_the_nodes_tell(tmp_path: Path) -> None:
    assert nvidia.read(tmp_path, nowhere, probe).trouble == "not-there"
    write(tmp_path / "dev/nvidia0")
    silent = nvidia.read(tmp_path, nowhere, lambda _: said("NVML Shared Library Not Found", 1))
    assert silent.trouble == "no-tool"
    assert silent.problem == "1 NVIDIA devices were found, but not nvidia-smi"


def test_in_wsl_the_tool_is_found_beside_path(tmp_path: Path) -> None:
    write(tmp_path / nvidia.WSL_TOOL)
    tool = Tool(HEAD + H100.format(0, "[N/A]"))
    assert len(nvidia.read(tmp_path, nowhere, tool).gpus) == 1
    assert tool.asked[0].startswith(str(tmp_path / nvidia.WSL_TOOL))


@pytest.mark.parametrize(
    ("release", "board", "jetpack"),
    [
        ("# R32 (release), REVISION: 4.4, GCID: 23942405, BOARD: t186ref", "Jetson-AGX", "4.4.1"),
        ("# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref", "", "5.1.2"),
        ("# R99 (release), REVISION: 0.0, GCID: 1", "", ""),
    ],
)
def test_a_jetson_is_known_by_its_release(
    release: str, board: str, jetpack: str, tmp_path: Path
) -> None:
    assert nvidia.jetson(tmp_path) is None
    write(tmp_path / "etc/nv_tegra_release", release)
    write(tmp_path / "proc/device-tree/model", f"{board}\0")
    found = nvidia.jetson(tmp_path)
    assert found is not None
    assert (found.board, found.jetpack) == (board or "Jetson", jetpack)


def test_the_least_driver_and_the_error_that_names_it() -> None:
    assert nvidia.least_driver("13.0") == "580.65.06"
    assert nvidia.least_driver("9.2") == ""
    error = nvidia.no_driver(nvidia.Driver(problem="there is no NVIDIA driver"), cuda="13.0")
    assert error.code == "no-driver"
    assert error.message == ("there is no NVIDIA driver; CUDA 13.0 needs driver 580.65.06 or newer")


# ---- the GPUs that a program sees

PARTS = tuple(
    nvidia.Mig("1g.5gb", number, f"MIG-{number}a-bc", f"{number + 7}/0") for number in range(7)
)
CUT = nvidia.NvidiaGpu(0, "GPU-11aa", "00:04.0", {"name": "NVIDIA A100-SXM4-40GB"}, PARTS)
WHOLE = nvidia.NvidiaGpu(1, "GPU-22bb", "00:05.0", {"name": "Tesla T4"})
OLD = nvidia.NvidiaGpu(2, "GPU-33cc", "00:06.0", {}, (nvidia.Mig("1g.5gb", 0, "MIG-GPU-33cc/7/0"),))
ALL = (CUT, WHOLE, OLD)
SEEN: dict[str, list[tuple[int, int]]] = {
    "1": [(1, 0)],
    "1, 0": [(1, 0), (0, 7)],
    "GPU-22": [(1, 0)],
    "MIG-3a-bc": [(0, 1)],
    "MIG-3a-bc,MIG-5a-bc,1": [(0, 2), (1, 0)],
    "0:2": [(0, 1)],
    "MIG-GPU-33cc/7/0": [(2, 1)],
}
"""CUDA_VISIBLE_DEVICES, and the GPUs with the number of parts that are left."""


@pytest.mark.parametrize("told", SEEN)
def test_a_program_sees_what_the_variable_names(told: str) -> None:
    assert [(gpu.index, len(gpu.mig)) for gpu in nvidia.visible(ALL, told)] == SEEN[told]


@pytest.mark.parametrize("told", ["9", "8", "12"])
def test_an_old_name_of_a_part_is_that_part(told: str) -> None:
    (gpu,) = nvidia.visible(ALL, f"MIG-GPU-11aa/{told}/0")
    assert [part.number for part in gpu.mig] == [int(told) - 7]


BAD = ["3", "-1", "GPU-9", "MIG-9", "0:9", "0,3", "", " , "]
BAD += ["MIG-GPU-11aa/1/0", "MIG-GPU-11aa/9/1", "MIG-GPU-11aa/9", "MIG-GPU-33cc/8/0"]


@pytest.mark.parametrize("told", BAD)
def test_what_names_nothing_is_refused_where_there_are_gpus(told: str) -> None:
    with pytest.raises(Error, match=r"names no GPU here|hides every GPU") as caught:
        nvidia.visible(ALL, told)
    assert caught.value.code == "no-device"
    assert nvidia.visible((), told) == ()
    assert nvidia.visible(ALL, None) == ALL


FAKE = r"""
// Not NVIDIA's: a library with the names of NVML that tests load in its place. Two GPUs; the
// second one has MIG on and two instances, and knows no ECC.
#include <string.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { char old[16]; unsigned a, b, c, d, e; char id[32]; } Pci;
static char first, second, parts[2];
int nvmlInit_v2(void) { return INIT; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12040; return 0; }
int nvmlSystemGetDriverVersion(char *t, unsigned n) { strcpy(t, "550.54.15"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = i ? &second : &first; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, Memory *m) { m->total = 40960ull << 20; return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, Pci *p) { strcpy(p->id, "00000000:07:00.0"); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = 8; *b = 0; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *v) { *v = 4; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *v) { *v = 16; return 0; }
int nvmlDeviceGetMaxClockInfo(void *d, int t, unsigned *v) { *v = t == 1 ? 1410 : 0; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *v) { *v = 400000; return 0; }
int nvmlDeviceGetPersistenceMode(void *d, int *v) { *v = 1; return 0; }
int nvmlDeviceGetEccMode(void *d, int *a, int *b) { *a = 1; return d == &second ? 3 : 0; }
int nvmlDeviceGetMigMode(void *d, unsigned *a, unsigned *b) { *a = d == &second; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *v) { *v = 3; return d == &first ? 3 : 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **p) {
  if (i == 1) return 6;
  *p = &parts[i / 2]; return 0;
}
int nvmlDeviceGetName(void *d, char *t, unsigned n) {
  strcpy(t, "NVIDIA A100-SXM4-40GB");
  if (d != &first && d != &second) strcat(t, " MIG 3g.20gb");
  return 0;
}
int nvmlDeviceGetGpuInstanceId(void *p, unsigned *v) { *v = p == parts ? 1 : 2; return 0; }
int nvmlDeviceGetComputeInstanceId(void *p, unsigned *v) { *v = 0; return p == parts ? 0 : 3; }
int nvmlDeviceGetUUID(void *d, char *t, unsigned n) {
  strcpy(t, d == &first ? "GPU-a" : d == &second ? "GPU-b" : d == parts ? "MIG-0" : "MIG-2");
  return 0;
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Callable[[int], nvidia.Ask]:
    """Ask a library whose start ends with that code."""
    compiler = which("gcc") or which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")

    def made(status: int) -> nvidia.Ask:
        folder = tmp_path / f"lib{status}"
        write(folder / "nvml.c", FAKE)
        words = [compiler, "-shared", "-fPIC", f"-DINIT={status}", "-o", folder / nvml.LIBRARY]
        subprocess.run([*words, folder / "nvml.c"], check=True)
        return lambda asked: probe(asked, env={"LD_LIBRARY_PATH": str(folder)})

    return made


def test_the_library_is_asked_where_there_is_no_tool(
    library: Callable[[int], nvidia.Ask], tmp_path: Path
) -> None:
    write(tmp_path / "root/dev/nvidia0")
    driver = nvidia.read(tmp_path / "root", nowhere, library(0))
    assert (driver.source, driver.version, driver.cuda) == ("NVML", "550.54.15", "12.4")
    first, second = driver.gpus
    assert (first.uuid, first.bus_id, first.memory) == ("GPU-a", "00000000:07:00.0", 40960)
    assert dict(first.kind) == {
        "name": "NVIDIA A100-SXM4-40GB",
        "driver_version": "550.54.15",
        "memory.total": "40960",
        "compute_cap": "8.0",
        "pcie.link.gen.max": "4",
        "pcie.link.width.max": "16",
        "clocks.max.sm": "1410",
        "power.limit": "400.00",
        "persistence_mode": "Enabled",
        "ecc.mode.current": "Enabled",
        "mig.mode.current": "Disabled",
    }
    assert first.mig == ()
    assert second.kind["ecc.mode.current"] == "[N/A]"
    assert second.mig == (
        nvidia.Mig("3g.20gb", 0, "MIG-0", "1/0"),
        nvidia.Mig("3g.20gb", 2, "MIG-2"),  # an older library does not know these numbers
    )


@pytest.mark.parametrize(("status", "name"), [(18, "mismatch"), (9, "not-loaded"), (99, "other")])
def test_what_the_library_refuses_is_said_in_the_same_words(
    status: int, name: str, library: Callable[[int], nvidia.Ask], tmp_path: Path
) -> None:
    driver = nvidia.read(tmp_path, nowhere, library(status), library_first=True)
    assert (driver.trouble, driver.source) == (name, "NVML")


def test_a_library_that_crashes_is_not_the_end(tmp_path: Path) -> None:
    def ask(words: Sequence[str]) -> ProbeResult:
        if words[0] == sys.executable:
            return ProbeResult(tuple(words), -11, "", "", 0.1)
        return said(HEAD + H100.format(0, "Disabled"))

    assert nvidia.read(tmp_path, there, ask, library_first=True).source == "nvidia-smi"
