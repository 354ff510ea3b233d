"""Words of NVIDIA's guides and what they mean here, by round."""

from __future__ import annotations

from collections.abc import Mapping

from nvidia_flow.errors import FlowError, nearest

_COMMON = {
    "bert": "bert-99",
    "resnet50": "resnet50",
    "rnnt": "rnnt",
    "ssd-mobilenet": "ssd-mobilenet",
    "ssd-resnet34": "ssd-resnet34",
}
BENCHMARKS: Mapping[str, Mapping[str, str]] = {
    "v0.7": {**_COMMON, "3d-unet": "3d-unet-brats-99", "dlrm": "dlrm-99"},
    "v2.0": {**_COMMON, "3d-unet": "3d-unet-99", "dlrm": "dlrm-99"},
    "v3.1": {
        "3d-unet": "3d-unet-99",
        "bert": "bert-99",
        "dlrm-v2": "dlrm-v2-99",
        "gptj": "gptj-99",
        "resnet50": "resnet50",
        "retinanet": "retinanet",
        "rnnt": "rnnt",
    },
}
"""For each round its words, and our benchmark of the lower accuracy target."""
SCENARIOS = ("Offline", "Server", "SingleStream", "MultiStream")
_EXACT = "high_accuracy"


def benchmark(vendor_round: str, word: str) -> str:
    """NVIDIA's own word for a benchmark in that round; raises FlowError with the nearest one."""
    known = rounds(vendor_round)
    if word.lower() not in known:
        raise FlowError(
            "bad-value", f"{vendor_round} has no benchmark {word}", nearest(word, known)
        )
    return word.lower()


def our_benchmark(vendor_round: str, word: str, config_ver: str) -> str:
    """Our name of a benchmark: ``high_accuracy`` asks for 99.9 % where there are two targets."""
    name = rounds(vendor_round)[benchmark(vendor_round, word)]
    return name + ".9" if name.endswith("-99") and _EXACT in config_ver else name


def scenario(word: str) -> str:
    """The scenario, whatever the case of its letters; raises FlowError."""
    known = {name.lower(): name for name in SCENARIOS}
    if word.lower() not in known:
        raise FlowError("bad-value", f"there is no scenario {word}", nearest(word, SCENARIOS))
    return known[word.lower()]


def rounds(vendor_round: str) -> Mapping[str, str]:
    """The words of a round; raises FlowError for one that is not known."""
    if vendor_round not in BENCHMARKS:
        raise FlowError(
            "bad-value",
            f"--vendor_round={vendor_round} is not known",
            nearest(vendor_round, BENCHMARKS),
        )
    return BENCHMARKS[vendor_round]
