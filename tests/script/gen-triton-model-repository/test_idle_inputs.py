"""Inputs that would be ignored are refused before anything runs."""

from __future__ import annotations

import pytest

from support import Home

REPOSITORY = "--tags=gen,triton,model-repository,_resnet50,_tiny"
HARNESS = "--tags=run-harness,nvidia"
BENCHMARK = "--tags=run-mlperf,inference,_tiny"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ((REPOSITORY, "--model_repository=/m", "--tag_set=mine"), "--model_type=tensorflow"),
        ((REPOSITORY, "--model_repository=/m", "--signature_def_key=x"), "--model_type=tensorflow"),
        ((REPOSITORY, "--triton_model_dir=/m/a", "--model_name=b"), "without --model_repository"),
        ((REPOSITORY, "--triton_model_dir=/m/a", "--model_repository=/m"), "--triton_model_dir"),
        ((REPOSITORY, "--model_repository=/m", "--inf2"), "without --neuron_core_range"),
        (("--tags=get,triton-server", "--image=x:1"), "--image has no effect without _container"),
        (
            ("--tags=run,triton-server", "--url=a:1", "--host=::1"),
            "--host has no effect with --url",
        ),
        (
            (HARNESS, "--target=info", "--division=open"),
            "--division has no effect without _workdir",
        ),
        ((f"{HARNESS},_workdir", "--target=info"), "--target has no effect with _workdir"),
        ((BENCHMARK, "--triton_url=a:1"), "--triton_url has no effect without --backend=triton"),
        ((BENCHMARK, "--sut_servers=a:1"), "--sut_servers has no effect without --network=lon"),
    ],
)
def test_an_input_without_effect_is_refused(home: Home, line: tuple[str, ...], told: str) -> None:
    done = home.cm("run", "script", *line, "--quiet")
    assert done.status == 4, done.stderr
    assert told in done.stderr
    assert "has no effect with" in done.stderr
