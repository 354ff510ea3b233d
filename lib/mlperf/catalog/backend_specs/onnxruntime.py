"""ONNX Runtime."""

from ..backend import DEVICES, BackendSpec, ConvertedGpuFormat, Option, Package

ONNXRUNTIME = BackendSpec(
    name="onnxruntime",
    title="ONNX Runtime",
    module="onnx_runtime:OnnxRuntime",
    devices=("cpu", "cuda"),
    precisions=("float32", "int8", ConvertedGpuFormat("float16")),
    packages=(
        Package("onnxruntime", ("onnxruntime",), "cpu"),
        Package("onnxruntime-gpu", ("onnxruntime-gpu",), "cuda"),
        Package("onnx", (), "cuda"),
    ),
    options={
        "devices": DEVICES,
        "graphs": Option(False, "whether a GPU's work on shapes that come again is captured"),
        "tf32": Option(False, "whether a GPU multiplies float32 in TF32, with 10 bits"),
    },
)
SPECS = (ONNXRUNTIME,)
