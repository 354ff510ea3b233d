"""The user's entry: what it refuses at once, what it prints at the end, what its inputs reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import benchmark_lab as lab

FOLDER = lab.SCRIPT / "run-mlperf-inference-app"
customize = lab.module_of(FOLDER / "customize.py")
META: dict[str, Any] = yaml.safe_load((FOLDER / "meta.yaml").read_text(encoding="utf-8"))


def test_the_full_benchmark_is_refused_before_anything_is_installed() -> None:
    with pytest.raises(customize.Error) as caught:
        customize.preprocess(
            {"env": {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_LOADGEN_MODE": "all"}}
        )
    assert caught.value.code == "not-available"
    assert "_tiny" in caught.value.hint
    assert not META.get("deps"), "dependencies would run before preprocess can refuse"


def test_one_scenario_and_all_of_them_contradict_each_other() -> None:
    env = {"CM_MLPERF_LOADGEN_ALL_SCENARIOS": "yes", "CM_MLPERF_LOADGEN_SCENARIO": "Server"}
    with pytest.raises(customize.Error, match="--scenario=Server and the variation") as caught:
        customize.preprocess({"env": env})
    assert caught.value.code == "bad-value"


def problem(scenario: str, rule: str) -> dict[str, Any]:
    fault = {"rule": rule, "text": f"{rule} was broken", "advice": f"mend {rule}"}
    return {"scenario": scenario, "mode": "performance", "fault": fault}


def finish(folder: Path, problems: list[dict[str, Any]]) -> dict[str, Any]:
    summary = folder / "summary.txt"
    summary.write_text("the table\n", encoding="utf-8")
    answer: dict[str, Any] = customize.postprocess(
        {
            "env": {"CM_MLPERF_INFERENCE_RESULTS_SUMMARY": str(summary)},
            "state": {
                "cm-mlperf-inference-results": {
                    "problems": problems,
                    "folder": str(folder),
                    "modes": ["performance"],
                }
            },
        }
    )
    return answer


def test_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(tmp_path, []) == {"return": 0}
    assert capsys.readouterr().out == "the table\n"


def test_broken_rules_are_an_error_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(customize.Error) as caught:
        finish(tmp_path, [problem("Server", "p99 latency"), problem("Server", "early stopping")])
    assert capsys.readouterr().out == "the table\n"
    error = caught.value
    assert error.message == "one run is not accepted: Server performance, rule: p99 latency"
    assert error.hint == "mend p99 latency"
    assert error.context == (
        "Server performance: p99 latency was broken",
        "Server performance: early stopping was broken",
        f"all results were kept in {tmp_path}",
    )


def test_every_input_reaches_code_or_a_dependency() -> None:
    """An input that does nothing is a defect: its env key must be read somewhere."""
    readers = [
        (FOLDER / "customize.py").read_text(encoding="utf-8"),
        (lab.SCRIPT / "app-mlperf-inference" / "customize.py").read_text(encoding="utf-8"),
        str(META["prehook_deps"]),
    ]
    # The one implementation that exists is chosen by either of its names.
    silent = {"CM_MLPERF_IMPLEMENTATION"}
    dead = [
        name
        for name, key in META["input_mapping"].items()
        if key not in silent and not any(key in text for text in readers)
    ]
    assert not dead


def test_choices_are_those_that_exist() -> None:
    """The lists for the user must not promise more, or less, than the harness has."""
    from mlperf_harness import backends, benchmarks
    from mlperf_harness.backends.onnx_runtime import PROVIDERS
    from mlperf_harness.settings import SCENARIOS, STYLES

    choices = {name: about.get("choices") for name, about in META["input_description"].items()}
    assert choices["model"] == list(benchmarks.BENCHMARKS)
    assert choices["backend"] == [name for name in backends.BACKENDS if name != "null"]
    assert choices["device"] == list(PROVIDERS)
    assert sorted(choices["scenario"]) == sorted(SCENARIOS)
    assert choices["execution_mode"] == list(STYLES)
