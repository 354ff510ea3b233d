"""The registered backends; a new one is one module and one line here."""

from __future__ import annotations

import importlib

from ..errors import HarnessError
from .base import Backend

# Name to "module:class": a backend's libraries are imported only when it is used.
BACKENDS = {
    "onnxruntime": "onnx_runtime:OnnxRuntime",
    "openvino": "open_vino:OpenVino",
    "pytorch": "py_torch:PyTorch",
    "null": "null:Null",
}


def create(name: str, device: str, precision: str) -> Backend:
    """The backend ``name`` on ``device``, computing in ``precision`` where it has a choice.

    Raises HarnessError when that does not exist here.
    """
    if name not in BACKENDS:
        raise HarnessError(f"no backend {name}; there are: {', '.join(BACKENDS)}")
    module, _, attribute = BACKENDS[name].partition(":")
    try:
        make = getattr(importlib.import_module(f".{module}", __name__), attribute)
    except ImportError as error:
        raise HarnessError(f"backend {name} cannot be used: {error}") from error
    backend: Backend = make(device, precision)
    return backend
