"""detect-neuron: refused where nothing shows, told in words where something does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import neuron
from steps import Step

SIX = neuron.NeuronMachine(
    tuple(neuron.NeuronDevice(k, f"00:1{k}.0", 4, 8 << 30) for k in range(4)),
    "inf1",
    "inf1.6xlarge",
    "neuron-ls",
)


def step(monkeypatch: pytest.MonkeyPatch, found: neuron.NeuronMachine, folder: Path) -> Step:
    monkeypatch.setattr(neuron, "read", lambda: found)
    return Step("detect-neuron", folder / "cwd", {})


def test_devices_and_cores_are_handed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = step(monkeypatch, SIX, tmp_path)
    made.call("preprocess")
    assert made.env == {
        "CM_NEURON_DEVICES": "/dev/neuron0,/dev/neuron1,/dev/neuron2,/dev/neuron3",
        "CM_NEURON_NUM_DEVICES": "4",
        "CM_NEURON_NUM_CORES": "16",
        "CM_NEURON_TARGET": "inf1",
        "CM_NEURON_INSTANCE_TYPE": "inf1.6xlarge",
    } | {key: made.env[key] for key in made.env if not key.startswith("CM_NEURON")}
    said = capsys.readouterr().out
    assert "/dev/neuron3 00:13.0: 4 cores, 8 GiB" in said
    assert "the last SDK for it is 2.26.1" in said


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (neuron.NeuronMachine(problem="no device", remedy="get one"), "no-device"),
        (
            neuron.NeuronMachine((neuron.NeuronDevice(0),), problem="no driver", remedy="get one"),
            "no-driver",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(
    found: neuron.NeuronMachine, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(Error) as caught:
        step(monkeypatch, found, tmp_path).call("preprocess")
    assert (caught.value.code, caught.value.hint) == (code, "get one")


def test_cores_in_use_and_an_unknown_family_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = neuron.NeuronDevice(0, "cc:00.0", 4, 8 << 30, (neuron.Holder(4711, "python x", (2,)),))
    step(monkeypatch, neuron.NeuronMachine((device,)), tmp_path).call("preprocess")
    said = capsys.readouterr().out
    assert "process 4711 (python x) holds NeuronCore 2 of /dev/neuron0; end that process" in said
    assert "models are compiled for inf1, inf2, trn1" in said
