"""TensorRT and TensorRT-RTX on a GPU."""

from ..backend import DEVICES, BackendSpec, Option, Package, Step

SPECS = (
    BackendSpec(
        name="tensorrt",
        title="TensorRT",
        module="tensor_rt:TensorRt",
        devices=("cuda",),
        precisions=("float32", "float16", "int8", "fp8"),
        packages=(Package("torch", ("torch", "pytorch")), Package("onnx"), Package("onnxruntime")),
        refuses={"whisper": "its cache grows with every token, and engines have one open size"},
        quantized="_signed",
        builds=True,
        options={
            "product": Option(
                "tensorrt",
                "who builds and runs the engine",
                ("tensorrt", "tensorrt-rtx"),
                key="CM_MLPERF_TENSORRT_PRODUCT",
            ),
            "batch": Option(64, "the greatest batch that the engine is built for"),
            "lengths": Option("1:384:384", "other open sizes, LEAST:USUAL:GREATEST"),
            "streams": Option(2, "lanes side by side at most"),
            "workspace": Option(0, "MiB that building may take beside weights, 0 for all"),
            "graphs": Option(True, "whether work on shapes that come again is captured"),
            "devices": DEVICES,
        },
        # The products are variations there: each has libraries of its own.
        steps=(
            Step(
                "get,tensorrt",
                ("tensorrt",),
                {"CM_MLPERF_TENSORRT_PRODUCT": "tensorrt"},
                prerequisite=True,
            ),
        ),
    ),
)
