"""llama.cpp, which generates tokens on any processor."""

from ..backend import BackendSpec, Option, Package

SPECS = (
    BackendSpec(
        name="llamacpp",
        title="llama.cpp",
        module="llama_cpp:LlamaCpp",
        packages=(Package("xllamacpp", ("xllamacpp",)),),
        model_tag="_gguf",
        generates=True,
        options={
            "kv_cache": Option(
                "float16",
                "what keys and values are kept in: float32 answers as the reference does",
                ("float16", "float32"),
            ),
        },
    ),
)
