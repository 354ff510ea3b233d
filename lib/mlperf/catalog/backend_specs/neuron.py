"""Models that were compiled for AWS Inferentia and Trainium, on the devices of this machine."""

from ..backend import BackendSpec, Option, Package, Step

NEURON = BackendSpec(
    name="neuron",
    title="AWS Neuron",
    module="neuron:Neuron",
    devices=("cpu", "inf1", "inf2", "trn1"),
    packages=(Package("torch", ("torch", "pytorch"), "cpu"),),
    only=("resnet50", "bert-99", "bert-99.9"),
    options={
        "cores": Option("", "NeuronCores to use, such as 0-3 (NEURON_RT_VISIBLE_CORES)"),
    },
    stands_in={"cpu": "a Neuron device"},
    model_tag="_pytorch",
    data_tag="_pytorch",
    steps=(
        Step("get,neuron-sdk,_pytorch", ("neuron-sdk",), prerequisite=True, devices=("inf1",)),
        Step(
            "get,neuron-sdk,_neuronx", ("neuron-sdk",), prerequisite=True, devices=("inf2", "trn1")
        ),
        Step(
            "compile,neuron-model",
            ("neuron-model",),
            {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_FORM": ""},
            env={"CM_NEURON_MODEL_TARGET": "<<<CM_MLPERF_DEVICE>>>"},
            defaults={"CM_NEURON_MODELS_PATH": "~/mlperf-inference-results/neuron-models"},
        ),
    ),
)
SPECS = (NEURON,)
