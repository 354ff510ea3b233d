"""PyTorch, on models that are turned from ONNX."""

from ..backend import BackendSpec, Package

SPECS = (
    BackendSpec(
        name="pytorch",
        title="PyTorch",
        module="py_torch:PyTorch",
        devices=("cpu", "cuda"),
        precisions=("float32", "bfloat16"),
        packages=(
            Package("torch", ("torch", "pytorch")),
            Package("onnx"),
            Package("onnx2torch"),
        ),
    ),
)
