"""OpenVINO."""

from ..backend import BackendSpec, Package

OPENVINO = BackendSpec(
    name="openvino",
    title="OpenVINO",
    module="open_vino:OpenVino",
    precisions=("float32", "bfloat16", "int8"),
    packages=(Package("openvino", ("openvino",)),),
    # 2026.4 mixes up keys where as many tokens are cached as a head has numbers.
    refuses={"whisper": "its plugin gives other answers than ONNX Runtime"},
)
SPECS = (OPENVINO,)
