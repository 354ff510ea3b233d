"""Nodes on other machines that compute: LoadGen's network mode."""

from ..backend import BackendSpec, Option

SPECS = (
    BackendSpec(
        name="network",
        title="nodes on other machines",
        module="network:Network",
        devices=("cpu", "cuda"),
        precisions=("float32", "int8", "bfloat16", "float16", "fp8"),
        options={
            "servers": Option("", "HOST:PORT of each node, with commas between"),
            "token_file": Option("", "file with the secret that the nodes want"),
            "backend": Option("", "what the nodes must compute with"),
        },
        # Selected by --network=lon; --backend is what the nodes compute with.
        refuses={"whisper": "nodes do not tell how many tokens their answers have"},
        public=False,
    ),
)
