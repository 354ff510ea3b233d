"""The catalogue: every benchmark of the rounds, every backend, and their vocabulary.

It needs nothing but Python's own library: the engine's interpreter, that of a benchmark and the
checks of a submission read the same facts. A folder of the user extends it, see ``plugins``.
"""

from __future__ import annotations

from . import rounds
from .backend import BackendSpec, Case, ConvertedGpuFormat, Option, Package, Step
from .benchmark import (
    Alias,
    Assets,
    BenchmarkSpec,
    Change,
    Compliance,
    Limit,
    Need,
    Outputs,
    Period,
    Scratch,
    Target,
    strict,
    tokens,
)
from .lookup import backend, backends, benchmark, benchmarks, files_of, find, names, runnable
from .metrics import Metric
from .scenario import (
    DEFAULT_LIMIT_MS,
    INTERACTIVE,
    MINIMUM_DURATION_MS,
    MULTI_STREAM,
    OFFLINE,
    SCENARIOS,
    SERVER,
    SINGLE_STREAM,
    ResultKey,
    Scenario,
)
from .text_enums import MODE_WORDS, Answers, CatalogError, Category, Division, Mode

__all__ = [
    "DEFAULT_LIMIT_MS",
    "INTERACTIVE",
    "MINIMUM_DURATION_MS",
    "MODE_WORDS",
    "MULTI_STREAM",
    "OFFLINE",
    "SCENARIOS",
    "SERVER",
    "SINGLE_STREAM",
    "Alias",
    "Answers",
    "Assets",
    "BackendSpec",
    "BenchmarkSpec",
    "Case",
    "CatalogError",
    "Category",
    "Change",
    "Compliance",
    "ConvertedGpuFormat",
    "Division",
    "Limit",
    "Metric",
    "Mode",
    "Need",
    "Option",
    "Outputs",
    "Package",
    "Period",
    "ResultKey",
    "Scenario",
    "Scratch",
    "Step",
    "Target",
    "backend",
    "backends",
    "benchmark",
    "benchmarks",
    "files_of",
    "find",
    "names",
    "rounds",
    "runnable",
    "strict",
    "tokens",
]
