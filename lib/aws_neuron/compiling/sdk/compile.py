"""Compile one model with the SDK of this Python, ``compile.py REQUEST``; nothing else meets it.

Run by ``aws_neuron.compiling``, never imported. It must work in Python 3.7, which torch-neuron's
own releases still have, and imports nothing of this project. It ends when its standard input does.
The calls into the SDK are not verified on hardware.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from typing import Any

SDKS = {"cpu": "torch", "inf1": "torch-neuron", "inf2": "torch-neuronx", "trn1": "torch-neuronx"}
PACKAGES = (
    "torch",
    "torch-neuron",
    "neuron-cc",
    "torch-neuronx",
    "neuronx-cc",
    "libneuronxla",
    "torchvision",
    "transformers",
)
# BERT-large: https://arxiv.org/abs/1810.04805, table of sizes; words of the uncased vocabulary.
BERT_LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "max_position_embeddings": 512,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}


def end_with_owner() -> None:
    """End this process and its compiler as soon as its owner is gone."""

    def wait() -> None:
        # Not sys.stdin: its lock, held by a thread that waits, stops an interpreter that ends.
        while os.read(0, 1024):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def version(name: str) -> str:
    """Return the version of an installed package; empty without one."""
    if sys.version_info < (3, 8):
        import pkg_resources

        versions = {each.key: each.version for each in pkg_resources.working_set}
        return versions.get(name, "")
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def opened(torch: Any, request: dict[str, Any]) -> Any:
    """Return the module to compile: TorchScript, or bare weights in the network that they are of.

    Raises ValueError when the weights are not those of that network.
    """
    architecture, path = request["architecture"], request["model"]
    if not architecture:
        return torch.jit.load(path, map_location="cpu").eval()
    weights = torch.load(path, map_location="cpu")
    if architecture == "torchvision.resnet50":
        import torchvision

        module = torchvision.models.resnet50()
        module.load_state_dict(weights)
        return module.eval()
    import transformers

    config = transformers.BertConfig(torchscript=True, return_dict=False, **BERT_LARGE)
    module = transformers.BertForQuestionAnswering(config)
    missing, extra = module.load_state_dict(weights, strict=False)
    # Answers need no pooler; places are numbered by the network itself.
    foreign = [name for name in (*missing, *extra) if "pooler" not in name]
    foreign = [name for name in foreign if "position_ids" not in name]
    if foreign:
        raise ValueError("weights of another network: " + ", ".join(foreign[:5]))
    return module.eval()


def fitted(torch: Any, module: Any, request: dict[str, Any]) -> Any:
    """Return the module with the arguments and the one result of the artefact."""

    class Scores(torch.nn.Module):
        """Returns the result with the scores of classes."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, images: Any) -> Any:
            outputs = self.inner(images)
            return outputs if isinstance(outputs, torch.Tensor) else outputs[request["output"]]

    class Logits(torch.nn.Module):
        """Start and end logits side by side; arguments of 32 bits."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            if request["widen"]:
                ids, mask, segments = ids.long(), mask.long(), segments.long()
            if request["architecture"]:
                outputs = self.inner(ids, attention_mask=mask, token_type_ids=segments)
            else:
                outputs = self.inner(ids, mask, segments)
            return torch.stack([outputs[0], outputs[1]], dim=-1)

    return (Logits if request["benchmark"] == "bert" else Scores)().eval()


def compiled(torch: Any, module: Any, examples: Any, request: dict[str, Any]) -> Any:
    """Return the artefact of the target, a TorchScript module."""
    flags, target = list(request["compiler_flags"]), request["target"]
    if target == "cpu":
        return torch.jit.trace(module, examples)
    more: dict[str, Any] = {"compiler_workdir": request["workdir"]}
    if target == "inf1":
        import torch_neuron  # noqa: F401 - it makes torch.neuron

        return torch.neuron.trace(
            module,
            list(examples),
            compiler_args=flags or None,
            dynamic_batch_size=request["dynamic_batch"],
            **more,
        )
    import torch_neuronx

    if not request["device"]:
        more["cpu_backend"] = True
    traced = torch_neuronx.trace(
        module, examples, compiler_args=["--target", target, *flags], **more
    )
    return torch_neuronx.dynamic_batch(traced) if request["dynamic_batch"] else traced


def main() -> int:
    """Compile, save, and write the answer."""
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    end_with_owner()
    # TorchScript is what the SDK and Triton take, however old it is called.
    warnings.simplefilter("ignore", FutureWarning)
    import torch

    module = fitted(torch, opened(torch, request), request)
    examples = tuple(
        torch.ones([request["batch_size"], *tensor["shape"]], dtype=getattr(torch, tensor["dtype"]))
        for tensor in request["inputs"]
    )
    with torch.no_grad():
        outputs = module(*examples)
        artefact = compiled(torch, module, examples, request)
    # Only the last of these makes a whole file: the name that is looked at belongs to the owner.
    torch.jit.save(artefact, request["artefact"])
    sdk = SDKS[request["target"]]
    versions = {name: version(name) for name in PACKAGES if version(name)}
    output = {"dtype": str(outputs.dtype).rpartition(".")[2], "shape": list(outputs.shape)}
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump({"sdk": sdk, "versions": versions, "output": output}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
