"""Signs of an NVIDIA GPU in made-up file trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.lib.host import accelerators


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
