"""OpenVINO."""

from ..backend import BackendSpec, Package

OPENVINO = BackendSpec(
    name="openvino",
    title="OpenVINO",
    module="open_vino:OpenVino",
    precisions=("float32", "bfloat16", "int8"),
    packages=(Package("openvino", ("openvino",)),),
)
SPECS = (OPENVINO,)
