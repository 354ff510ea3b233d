"""One module for each backend, imported when it is asked for.

``NAMES`` are the names of each module's ``SPECS``.
"""

NAMES = {
    "network": ("network",),
    "neuron": ("neuron",),
    "null": ("null",),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "pytorch": ("pytorch",),
    "stand_in": ("stand-in",),
    "tensorrt": ("tensorrt",),
    "triton": ("triton",),
}
