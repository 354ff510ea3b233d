"""PyTorch, on models that are turned from ONNX."""

from ..backend import BackendSpec, GpuFormat, Option, Package

SPECS = (
    BackendSpec(
        name="pytorch",
        title="PyTorch",
        module="py_torch:PyTorch",
        devices=("cpu", "cuda"),
        precisions=("float32", "bfloat16", GpuFormat("float16")),
        packages=(
            Package("torch", ("torch", "pytorch")),
            Package("onnx"),
            Package("onnx2torch"),
        ),
        options={
            "tf32": Option(False, "whether a GPU multiplies float32 in TF32, with 10 bits"),
        },
    ),
)
