"""The reference client's configuration of the points of a plan.

Keys are those of ``inference_endpoint`` 0.1.0, revision ea3327530376. It has no key for a salt of
every query (rules 2.9.5) outside agentic data sets, and its ``model_seed`` is the model's ``seed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import bad_value
from mlperf.client_run import MAX_THROUGHPUT

from .plan import CurvePlan, PlannedPoint
from .rules import AGENTIC, CONCURRENCY, EndpointsModel

SMALL = {"num_workers": 1, "warmup_connections": 0, "max_idle_time": 0.5}
"""For llama.cpp's server: by default the client opens thousands of connections before it starts,
and reuses some that this server has closed."""
CONFIGS, RUNS = "configs", "runs"
START_S = 300.0
"""How long the client waits for its own processes: a busy host needs more than its 60 s."""


@dataclass(frozen=True, slots=True)
class ClientTarget:
    """The endpoint, and the files to measure it with.

    ``dataset`` is a file in place of the data set that the client would fetch; ``tokenizer`` is a
    folder or a name. A ``rehearsal`` sends that many requests a point, with prompts of its
    ``dataset``, and judges no answers; nothing of it can be submitted. ``small`` endpoints get few
    connections.
    """

    url: str
    served_model: str
    api: str = "openai"
    dataset: str = ""
    tokenizer: str = ""
    rehearsal: int = 0
    small: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How the client's examples set up a model: parameters and data sets for its configuration."""

    parameters: Mapping[str, Any]
    performance: Mapping[str, Any]
    accuracy: tuple[Mapping[str, Any], ...]
    needs_file: str = ""
    """What the file is that ``--dataset`` has to name, where the client fetches none."""


def _judged(name: str, method: str, repeats: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "accuracy_config": {"eval_method": method, "num_repeats": repeats, **more},
    }


_NEWS = {"name": "cnn_dailymail::llama3_8b", "parser": {"input": "prompt"}, "samples": 13368}
_AGENTIC = ModelSettings(
    {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8192},
    {
        "name": "agentic_combined",
        "accuracy_config": {"eval_method": "agentic_inference_inline", "num_repeats": 1},
        "agentic_inference": {
            "turn_timeout_s": 86400.0,
            "enable_salt": True,
            "inject_tool_delay": True,
            "num_trajectories_to_issue": 613,
            "stop_issuing_on_first_user_complete": False,
        },
    },
    (_judged("swe_bench", "swe_bench_scorer", extras={"num_instances": 200}),),
    "agentic_combined.jsonl",
)
_BY_MODEL = {
    "llama3_1-8b": ModelSettings(
        {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 128},
        _NEWS,
        (
            _NEWS
            | _judged(
                "cnn_dailymail::llama3_8b",
                "rouge",
                ground_truth="highlights",
                extractor="identity_extractor",
            ),
        ),
    ),
    "gpt-oss-120b": ModelSettings(
        {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 10240, "skip_special_tokens": False},
        {"name": "mlperf_gpt_oss_performance", "parser": {"input_tokens": "input_tokens"}},
        tuple(
            entry | {"generation_config_override": {"max_new_tokens": 32768}}
            for entry in (
                _judged("aime25::gptoss", "pass_at_1", 8, ground_truth="answer",
                        extractor="boxed_math_extractor"),
                _judged("gpqa::gptoss", "pass_at_1", 5, ground_truth="ground_truth",
                        extractor="abcd_extractor"),
                _judged("livecodebench::gptoss", "code_bench_scorer", 3,
                        extractor="python_code_extractor"),
            )
        ),
        "the parquet file of prompts as tokens of mlcommons/inference",
    ),
    "deepseek-r1": ModelSettings(
        {"temperature": 0.0, "top_k": 1, "top_p": 1.0, "max_new_tokens": 20000},
        {"name": "mlperf_deepseek_r1"},
        (
            _judged(
                "deepseek_r1_accuracy", "legacy_mlperf_deepseek_r1", ground_truth="ground_truth"
            ),
        ),
        "deepseek_r1_eval.parquet",
    ),
}  # fmt: skip


def settings_of(model: EndpointsModel) -> ModelSettings:
    """Return the client's settings for a model."""
    return _AGENTIC if model.agentic else _BY_MODEL[model.name]


def configuration(
    plan: CurvePlan, point: PlannedPoint, target: ClientTarget, report: Path
) -> dict[str, Any]:
    """Return the configuration of a point; raise Problem where a data set has no file."""
    settings = settings_of(plan.model)
    if settings.needs_file and not target.dataset:
        raise bad_value(
            f"{plan.model.name} has no data set that the client fetches",
            f"name {settings.needs_file}: --dataset=FILE",
        )
    parameters: dict[str, Any] = {
        "name": target.served_model,
        **settings.parameters,
        "seed": plan.seeds.model,
        "streaming": "off" if point.offline else "on",
    }
    if target.tokenizer:
        parameters["tokenizer_name"] = target.tokenizer
    return {
        "name": f"{plan.model.name}-{point.name}",
        "version": "1.0",
        "type": "offline" if point.offline else "online",
        "model_params": parameters,
        "datasets": list(_datasets(settings, point, target)),
        "settings": {
            "runtime": _runtime(plan, point, target),
            "load_pattern": _load(plan, point),
            "client": {"worker_initialization_timeout": START_S, **(SMALL if target.small else {})},
        },
        "endpoint_config": {"endpoints": [target.url], "api_type": target.api},
        "report_dir": str(report),
    }


def _datasets(
    settings: ModelSettings, point: PlannedPoint, target: ClientTarget
) -> Iterator[dict[str, Any]]:
    file = {"path": target.dataset} if target.dataset else {}
    if target.rehearsal:
        # A file of one's own has other columns and other samples than the data set of the rules.
        own = (
            {"name": "rehearsal", "parser": {"prompt": "prompt"}} if file else settings.performance
        )
        yield {**own, **file, "type": "performance"}
        return
    yield {**settings.performance, **file, "type": "performance"}
    if point.accuracy:
        judged = file if settings.needs_file and len(settings.accuracy) == 1 else {}
        for entry in settings.accuracy:
            yield {**entry, **({} if "swe_bench" in entry["name"] else judged), "type": "accuracy"}


def _runtime(plan: CurvePlan, point: PlannedPoint, target: ClientTarget) -> dict[str, Any]:
    seeds = {
        "scheduler_random_seed": plan.seeds.scheduler,
        "dataloader_random_seed": plan.seeds.sample_index,
    }
    if target.rehearsal:
        return {"min_duration_ms": 0, "n_samples_to_issue": target.rehearsal, **seeds}
    passes = plan.passes(point)
    # Without a count, the client would compute it from the duration and a rate of its own.
    return {
        "min_duration_ms": 1000 * point.seconds,
        "max_duration_ms": 0,
        "n_samples_to_issue": passes * plan.model.samples,
        **seeds,
    }


def _load(plan: CurvePlan, point: PlannedPoint) -> dict[str, Any]:
    if point.offline:
        return {"type": MAX_THROUGHPUT}
    kind = AGENTIC if plan.model.agentic else CONCURRENCY
    return {"type": kind, "target_concurrency": point.concurrency}


def write(plan: CurvePlan, target: ClientTarget, folder: Path) -> tuple[Path, ...]:
    """Write the configuration of every point into ``folder``; return the files."""
    import yaml

    (folder / CONFIGS).mkdir(parents=True, exist_ok=True)
    written = []
    for point in plan.points:
        path = folder / CONFIGS / f"{point.name}.yaml"
        document = configuration(plan, point, target, folder / RUNS / point.name)
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        written.append(path)
    return tuple(written)
