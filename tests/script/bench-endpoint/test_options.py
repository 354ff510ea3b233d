"""The command line of the endpoint benchmark, and the inputs of its script."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from common.problems import Problem
from serving.endpoint.options import OPTIONS, EndpointCall, load_steps, read
from support import ROOT

META = yaml.safe_load((ROOT / "script/bench-endpoint/meta.yaml").read_text(encoding="utf-8"))


def call_of(*words: str) -> EndpointCall:
    return read(["--url=h:1", *words])[0]


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("4", [4]),
        ("1,2,9", [1, 2, 9]),
        ("1:64", [1, 2, 4, 8, 16, 32, 64]),
        ("1:48", [1, 2, 4, 8, 16, 32, 48]),
        ("3:3", [3]),
        ("10:50:20", [10, 30, 50]),
    ],
)
def test_loads(text: str, loads: list[float]) -> None:
    assert load_steps(text, "concurrency", whole=True) == loads


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_doublings_begin_and_end_where_they_should(first: int, more: int) -> None:
    loads = load_steps(f"{first}:{first + more}", "concurrency", whole=True)
    assert (loads[0], loads[-1]) == (first, first + more)
    assert loads == sorted(set(loads))


def test_limits_have_units() -> None:
    assert call_of("--slo=ttft:500ms,tpot:30,e2e:2s").slo == {"ttft": 5e8, "tpot": 3e7, "e2e": 2e9}


@pytest.mark.parametrize(
    "words",
    [
        ("--slo=ttft",),
        ("--slo=speed:1ms",),
        ("--search=rate",),
        ("--rate=1", "--concurrency=2"),
        ("--rate=trace",),
        ("--connections=4",),
        ("--distribution=constant",),
        ("--rate=2", "--burst_size=4"),
        ("--concurrency=0",),
        ("--concurrency=8:2",),
        ("--concurrency=99999",),
        ("--input_tokens=9:3",),
        ("--body=[]",),
        ("--body={",),
        ('--body={"stream": false}',),
        ("--header=nothing",),
        ("--header=X: caf\u00e9\u2603",),
        ("--api_key_env=CMBENCH_NO_SUCH_KEY",),
        ("--salt=perhaps",),
        ("--concurency=4",),
        ("--tls_ca=/nowhere", "--url="),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(Problem):
        call_of(*words)


@pytest.mark.parametrize("body", ["{", "[]", "{'a': 1}"])
def test_a_body_that_is_not_an_object_is_refused_with_one_that_is(body: str) -> None:
    with pytest.raises(Problem, match="--body is not ") as refused:
        call_of(f"--body={body}")
    assert refused.value.hint == """for example: --body='{"ignore_eos": true}'"""


def test_a_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    monkeypatch.setenv("MINE", "k2")
    assert call_of().endpoint.headers == (("Authorization", "Bearer k1"),)
    assert call_of("--api_key_env=MINE").endpoint.headers == (("Authorization", "Bearer k2"),)


def test_each_call_has_a_seed_of_its_own() -> None:
    assert call_of().prompts.seed != call_of().prompts.seed
    assert call_of("--seed=7").prompts.seed == 7


def test_the_script_has_the_options_of_the_program() -> None:
    names = {option.name for option in OPTIONS}
    described = META["input_description"].items()
    server = {name for name, spec in described if "only_with" in spec}
    server |= {"server", "python", "register"}
    assert set(META["input_mapping"]) == set(META["input_description"]) == names | server
    for option in OPTIONS:
        spec = META["input_description"][option.name]
        assert spec.get("choices", []) == [word for word in option.choices if word]
        assert str(spec.get("default", "")) == option.default
        assert spec.get("repeats", False) == option.repeats
