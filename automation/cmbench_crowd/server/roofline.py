"""Whether hardware can have computed what a result says, by its cores and their widest units.

All bounds are generous: what is beyond them is impossible, what is below them may still be a lie.
"""

from __future__ import annotations

import re

from cmbench_crowd import manifest as m

FLOPS = {
    "resnet50": 7e9,
    "retinanet": 1.5e11,
    "bert": 5e10,
    "3d-unet": 1e12,
    "stable-diffusion-xl": 1e14,
    "gptj": 6e12,
}
"""Operations for a sample, at least: those of the models of the rules, rounded down; where samples
differ in length, half of the mean or less (twice the multiply-adds published with the models)."""
PARAMETERS = {
    "gptj": 6e9,
    "llama2-70b": 68e9,
    "llama3.1-405b": 400e9,
    "llama3.1-8b": 7.5e9,
    "mixtral-8x7b": 12e9,
}
"""Weights that take part in a token: each is one multiply-add, for input and output."""
HERTZ = 7e9
PER_CYCLE = {"float32": 128.0, "float16": 2048.0, "bfloat16": 2048.0}
"""Operations of a core in a cycle: two 512-bit multiply-adds and twice that for matrix units of
phones and laptops; tiles of AMX for short numbers, and as many again for whole ones."""
WIDEST = 4096.0
ACCELERATOR = {"float32": 2e15, "float16": 1e16, "bfloat16": 1e16}
FASTEST = 5e16
"""Operations of an accelerator in a second, some times what any has."""
_PER_QUERY = {"SingleStream": 1, "MultiStream": 8}


def plausible(told: m.Manifest, value: float, unit: str) -> tuple[bool | None, str]:
    """Whether a figure is below what its hardware permits, in words; None where nothing is known.

    ``value`` is samples or tokens a second, or the milliseconds of a query.
    """
    work, system = told.workload, told.system
    family = re.sub(r"(-interactive|-brats)?-99(\.9)?$", "", work.benchmark)
    if unit == "ms":
        value, unit = 1000 * _PER_QUERY.get(work.scenario, 1) / value, "samples/s"
    each = 2 * PARAMETERS.get(family, 0.0) if unit == "tokens/s" else FLOPS.get(family, 0.0)
    most = _most(system, work.precision)
    # The open division, and the tiny forms, compute other models.
    own = work.division == "open" or work.model.endswith(("_tiny", "_synthetic"))
    if not each or not most or own:
        return None, "no bound is known of what this hardware can do at this work"
    words = f"{value:.4g} {unit} of {each / 1e9:g} GFLOP each are {value * each / 1e12:.3g} TFLOP/s"
    what = f"{system.accelerators} accelerators" if system.accelerators else f"{system.cores} cores"
    bound = f"{what} can compute {most / 1e12:.3g} at most"
    return value * each <= most, f"{words}; {bound}"


def _most(system: m.System, precision: str) -> float:
    """Operations in a second that nothing with these parts can exceed; 0 where they are unknown."""
    nodes = max(1, system.nodes)
    cores = nodes * system.cores * HERTZ * PER_CYCLE.get(precision, WIDEST)
    return cores + nodes * system.accelerators * ACCELERATOR.get(precision, FASTEST)
