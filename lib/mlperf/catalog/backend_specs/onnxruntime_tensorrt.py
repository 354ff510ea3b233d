"""ONNX Runtime's TensorRT provider on a GPU."""

from ..backend import DEVICES, BackendSpec, Option, Package, Step

SPECS = (
    BackendSpec(
        name="onnxruntime-tensorrt",
        title="ONNX Runtime with TensorRT",
        module="onnx_tensorrt:OnnxTensorRt",
        devices=("cuda",),
        precisions=("float32", "float16"),
        packages=(Package("onnxruntime-gpu", ("onnxruntime-gpu",)), Package("onnx")),
        refuses={"whisper": "its cache grows with every token, and engines have one open size"},
        builds=True,
        options={
            "batch": Option(64, "the greatest batch that engines are built for"),
            "lengths": Option("1:384:384", "other open sizes, LEAST:USUAL:GREATEST"),
            "devices": DEVICES,
        },
        steps=(Step("get,tensorrt", ("tensorrt",), prerequisite=True),),
    ),
)
