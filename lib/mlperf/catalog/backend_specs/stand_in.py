"""A stand-in for TensorRT without a GPU: the same flow, computed by ONNX Runtime."""

from ..backend import BackendSpec, Package

SPECS = (
    BackendSpec(
        name="stand-in",
        title="stand-in for TensorRT (ONNX Runtime on the CPU)",
        module="stand_in:StandIn",
        precisions=("float32", "float16", "int8"),
        packages=(Package("onnxruntime", ("onnxruntime",)), Package("onnx")),
        refuses={"whisper": "its cache grows with every token, and engines have one open size"},
        quantized="_signed",
        builds=True,
        stands_in={"cpu": "TensorRT"},
    ),
)
