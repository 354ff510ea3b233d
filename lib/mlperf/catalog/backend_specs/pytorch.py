"""PyTorch, on models that are turned from ONNX."""

from ..backend import DEVICES, BackendSpec, GpuFormat, Option, Package

SPECS = (
    BackendSpec(
        name="pytorch",
        title="PyTorch",
        module="py_torch:PyTorch",
        devices=("cpu", "cuda", "rocm", "xpu"),
        precisions=("float32", "bfloat16", GpuFormat("float16")),
        refuses={"whisper": "its graphs have not been compared with ONNX Runtime in PyTorch"},
        packages=(
            Package("torch", ("torch", "pytorch")),
            Package("onnx"),
            Package("torchvision", ("torchvision",)),
            Package("onnx2torch"),
            Package("transformers", models=("bert-99", "bert-99.9"), forms=("", "synthetic")),
        ),
        options={
            "module": Option(
                "auto",
                "what computes a graph for which a library has a module: that, or its conversion",
                ("auto", "graph"),
            ),
            "compile_s": Option(
                120, "seconds that torch.compile may take in a process on a GPU, 0 for none"
            ),
            "devices": DEVICES,
            "tf32": Option(False, "whether a GPU multiplies float32 in TF32, with 10 bits"),
        },
    ),
)
