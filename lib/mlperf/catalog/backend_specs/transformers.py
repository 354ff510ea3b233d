"""Hugging Face's transformers, whose answers are what other engines are compared with."""

from ..backend import BackendSpec, Package

SPECS = (
    BackendSpec(
        name="transformers",
        title="transformers",
        module="causal_lm:Transformers",
        precisions=("float32", "bfloat16"),
        packages=(Package("torch", ("torch", "pytorch")), Package("transformers")),
        model_tag="_pytorch",
        generates=True,
    ),
)
