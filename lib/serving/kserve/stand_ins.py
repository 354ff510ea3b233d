"""The stand-in for a device in a model that gen,triton,model-repository has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEURON = "neuron on cpu: this processor stands in for a Neuron device, its figures are none of one"


def stand_in(config: Mapping[str, Any]) -> str:
    """Return in words what a configuration says of a stand-in; empty where there is none."""
    on = (_text(config, "RUNTIME"), _text(config, "DEVICE"))
    return NEURON if on == ("neuron", "cpu") else ""


def _text(config: Mapping[str, Any], name: str) -> str:
    parameters = config.get("parameters")
    value = parameters.get(name) if isinstance(parameters, Mapping) else None
    return str(value.get("string_value", "")) if isinstance(value, Mapping) else ""
