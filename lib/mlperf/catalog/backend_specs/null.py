"""A backend that computes nothing: for tests and for the harness's own speed."""

from ..backend import BackendSpec

SPECS = (
    BackendSpec(
        name="null",
        title="nothing is computed",
        module="null:Null",
        devices=("cpu", "cuda"),
        precisions=("float32", "bfloat16", "int8"),
        public=False,
    ),
)
