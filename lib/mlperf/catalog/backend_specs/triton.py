"""Models that a Triton Inference Server serves over its network protocol."""

from ..backend import BackendSpec, Case, Option, Package, Step
from .neuron import NEURON
from .onnxruntime import ONNXRUNTIME
from .openvino import OPENVINO

TORCH = (Package("torch", ("torch", "pytorch")),)
SPECS = (
    BackendSpec(
        name="triton",
        title="Triton Inference Server",
        module="triton:Triton",
        devices=NEURON.devices,
        precisions=OPENVINO.precisions,
        packages=(Package("tritonclient[grpc]", ("tritonclient",)),),
        refuses=dict.fromkeys(("rnnt", "whisper"), "its model consists of several graphs"),
        options={
            "backend": Option(
                "onnxruntime",
                "what the server computes with, in its Python backend",
                ("onnxruntime", "openvino", "pytorch", "neuron"),
                "CM_MLPERF_TRITON_BACKEND",
            ),
            "protocol": Option(
                "http", "how it is asked", ("http", "grpc"), "CM_MLPERF_TRITON_PROTOCOL"
            ),
            "shared_memory": Option(
                "none",
                "whether tensors lie in memory of both, on one machine",
                ("none", "system"),
                "CM_MLPERF_TRITON_SHARED_MEMORY",
            ),
            "url": Option(
                "", "HOST:PORT of a server that is there already", key="CM_MLPERF_TRITON_URL"
            ),
            "model": Option("", "the model's name there, where it has several"),
            "instances": Option(1, "how often the model is there at once"),
            "threads": Option(0, "threads of each instance, 0 for all cores together"),
            "preferred_batch": Option(0, "batch that the server gathers, 0 for none"),
            "delay_us": Option(
                0,
                "with preferred_batch, how long it waits, in microseconds",
                needs="preferred_batch",
            ),
        },
        service="triton_service:serve",
        steps=(
            Step(
                "get,triton-server",
                ("triton-server",),
                {"CM_MLPERF_TRITON_BACKEND": "onnxruntime"},
                "CM_MLPERF_TRITON_URL",
            ),
        ),
        cases=(
            Case("backend", "onnxruntime", precisions=ONNXRUNTIME.precisions),
            Case("backend", "openvino", precisions=OPENVINO.precisions),
            # Of these alone there is TorchScript.
            Case(
                "backend",
                "pytorch",
                packages=TORCH,
                model_tag=NEURON.model_tag,
                data_tag=NEURON.data_tag,
                only=NEURON.only,
            ),
            Case(
                "backend",
                "neuron",
                devices=NEURON.devices,
                packages=NEURON.packages,
                model_tag=NEURON.model_tag,
                data_tag=NEURON.data_tag,
                only=NEURON.only,
                steps=NEURON.steps,
            ),
        ),
    ),
)
