"""Models that were compiled for AWS Inferentia and Trainium, on the devices of this machine."""

from ..backend import BackendSpec, Option, Package

SPECS = (
    BackendSpec(
        name="neuron",
        title="AWS Neuron",
        module="neuron:Neuron",
        devices=("cpu", "inf1", "inf2", "trn1"),
        packages=(Package("torch", ("torch", "pytorch"), "cpu"),),
        only=("resnet50", "bert-99", "bert-99.9"),
        options={
            "cores": Option("", "NeuronCores to use, such as 0-3 (NEURON_RT_VISIBLE_CORES)"),
        },
        # Until the step that compiles gives its models to a run.
        public=False,
    ),
)
