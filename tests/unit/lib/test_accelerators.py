"""Signs of an NVIDIA GPU in made-up file trees, and what drivers say of their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cmbench.lib.host import accelerators
from cmbench.lib.probe import ProbeResult


def nowhere(_: str) -> None:
    """A PATH without programs."""


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
    assert accelerators.nvidia_signs(tmp_path, nowhere) == ()
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).touch()
    (sign,) = accelerators.nvidia_signs(tmp_path, nowhere)
    assert (tmp_path / path).is_relative_to(sign)


def test_the_drivers_tool_is_a_sign(tmp_path: Path) -> None:
    tool = Path("/opt/nvidia-smi")
    assert accelerators.nvidia_signs(tmp_path, {"nvidia-smi": tool}.get) == (str(tool),)


def test_other_devices_are_none(tmp_path: Path) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("dri/renderD128", "kfd", "nvme0", "nvram", "neuron0"):
        (tmp_path / "dev" / name).touch()
    assert accelerators.nvidia_signs(tmp_path, nowhere) == ()


def test_nodes_are_counted_without_those_of_the_driver(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        (tmp_path / "dev" / name).touch()
    names = [path.name for path in accelerators.nvidia_nodes(tmp_path)]
    assert names == ["nvidia0", "nvidia1"]


def driver(*answers: tuple[int, str]) -> Callable[[Sequence[str]], ProbeResult]:
    """A driver that gives these answers, one after the other: exit status and output."""
    left = list(answers)

    def ask(words: Sequence[str]) -> ProbeResult:
        status, text = left.pop(0)
        return ProbeResult(tuple(words), status, text, "", 0.1)

    return ask


def test_the_driver_shows_each_gpu() -> None:
    line = "NVIDIA H100 80GB HBM3, 535.104.05, 81559, 5, 16, 1980, Disabled\n"
    gpus, problem = accelerators.nvidia_gpus(driver((0, line * 2)))
    assert (len(gpus), problem) == (2, "")
    assert gpus[0] == {
        "name": "NVIDIA H100 80GB HBM3",
        "driver_version": "535.104.05",
        "memory.total": "81559",
        "pcie.link.gen.max": "5",
        "pcie.link.width.max": "16",
        "clocks.max.sm": "1980",
        "mig.mode.current": "Disabled",
    }


def test_an_old_driver_is_not_asked_for_what_it_does_not_know() -> None:
    refused = 'Field "mig.mode.current" is not a valid field to query.\n'
    gpus, problem = accelerators.nvidia_gpus(
        driver((2, refused), (0, "Tesla K80, 418.67, 11441, 3, 16, 875\n"))
    )
    assert problem == ""
    assert gpus[0]["name"] == "Tesla K80"
    assert "mig.mode.current" not in gpus[0]


def test_a_driver_that_does_not_work_says_why() -> None:
    gpus, problem = accelerators.nvidia_gpus(driver((9, "Driver/library version mismatch\n")))
    assert gpus == ()
    assert "version mismatch" in problem
    assert accelerators.nvidia_gpus(driver((0, "No devices were found\n"))) == ((), "")
