"""ONNX Runtime."""

from ..backend import BackendSpec, Package

ONNXRUNTIME = BackendSpec(
    name="onnxruntime",
    title="ONNX Runtime",
    module="onnx_runtime:OnnxRuntime",
    devices=("cpu", "cuda"),
    precisions=("float32", "int8"),
    packages=(
        Package("onnxruntime", ("onnxruntime",), "cpu"),
        Package("onnxruntime-gpu", ("onnxruntime-gpu",), "cuda"),
    ),
)
SPECS = (ONNXRUNTIME,)
