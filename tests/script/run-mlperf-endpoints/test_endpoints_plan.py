"""The plan of a curve: regions, points, durations, seeds, and runs that count."""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import threading
from datetime import date
from pathlib import Path

import pytest
import yaml

import mlperf_endpoints_lab as lab
from common.problems import Problem
from mlperf import client_run as runs
from mlperf.endpoints import client_runs, configs, inputs, plan, rules
from serving.text_server.engines import ENGINES
from serving.text_server.settings import TextServerSettings
from support import ROOT, Home

TARGET = configs.ClientTarget("http://localhost:8000", "meta-llama/Llama-3.1-8B-Instruct")


@pytest.mark.parametrize(
    ("c_max", "c_min", "low", "medium"),
    [(1024, 16, 26, 117), (256, 4, 10, 44), (1024, 1, 11, 103), (33, 32, 33, 33), (64, 32, 35, 42)],
)
def test_regions_end_where_the_reference_has_them(
    c_max: int, c_min: int, low: int, medium: int
) -> None:
    regions = rules.regions_of(c_max, c_min)
    assert (regions.low_end, regions.medium_end) == (low, medium)


def test_regions_are_those_of_the_official_checker() -> None:
    official = pytest.importorskip("submission_checker.models.regions")
    for c_max in (33, 47, 64, 100, 255, 1000, 4096, 100_000):
        for c_min in (1, 2, 5, 8, 16, 31, 32):
            ours, theirs = rules.regions_of(c_max, c_min), official.compute_regions(c_max, c_min)
            for band in ("low", "medium", "high"):
                name = {"medium": "med"}.get(band, band)
                bounds = getattr(theirs, f"{name}_concurrency")
                assert ours.bounds(band) == (bounds.start, bounds.end)


@pytest.mark.parametrize(("c_max", "c_min"), [(32, 1), (64, 0), (64, 33)])
def test_curves_that_there_are_none_of(c_max: int, c_min: int) -> None:
    with pytest.raises(Problem, match="C_m"):
        rules.regions_of(c_max, c_min)


def test_a_plan_has_a_point_in_each_band_and_three_more() -> None:
    curve = lab.curve_plan()
    assert [point.concurrency for point in curve.points] == [4, 7, 22, 41, 75, 139, 256]
    assert [point.seconds for point in curve.points] == [600] * 3 + [1200] * 4
    judged = [point.concurrency for point in curve.points if point.accuracy]
    assert list(rules.assign_bands(judged, curve.regions)) == list(rules.BANDS)
    assert curve.points[-1].elected
    assert curve.hours == pytest.approx(6600 / 3600)


def test_an_offline_run_of_its_own_is_one_point_more() -> None:
    curve = lab.curve_plan(offline=rules.DEDICATED)
    assert [point.name for point in curve.points if point.offline] == ["r13368"]
    assert not any(point.elected for point in curve.points)


def test_an_agentic_model_has_no_offline_point() -> None:
    model = rules.MODELS["kimi-k3"]
    regions = rules.regions_of(64, 8)
    curve = plan.plan_curve(model, "RDI", regions, rules.PUBLISHED[0], lab.COHORT)
    assert not any(point.offline or point.elected for point in curve.points)
    assert curve.points[-1].seconds == 2400


@pytest.mark.parametrize("points", [6, 33, 20])
def test_a_count_of_points_that_there_cannot_be(points: int) -> None:
    with pytest.raises(Problem):
        plan.plan_curve(
            rules.MODELS[lab.MODEL],
            "RDI",
            rules.regions_of(40, 32),
            rules.PUBLISHED[0],
            lab.COHORT,
            points=points,
        )


def test_regions_without_a_whole_number() -> None:
    with pytest.raises(Problem, match="no whole number"):
        plan.mandatory_points(rules.regions_of(33, 32))


@pytest.mark.parametrize(
    ("day", "cohort"),
    [((2026, 11, 28), "2026-12-C0"), ((2026, 12, 2), "2026-12-C0"), ((2026, 12, 3), "2026-12-C1"),
     ((2026, 12, 17), "2027-01-C0")],
)  # fmt: skip
def test_the_next_cohort(day: tuple[int, int, int], cohort: str) -> None:
    assert plan.next_cohort(date(*day)) == cohort


def test_seeds_may_be_used_for_four_cohorts() -> None:
    assert rules.PUBLISHED[0].cohorts == ("2026-10-C1", "2026-11-C0", "2026-11-C1", "2026-12-C0")
    with pytest.raises(Problem, match="2026-10-C1 to 2026-12-C0"):
        rules.seeds_for("2026-12-C1")
    later = {"scheduler_rng_seed": 1, "sample_index_rng_seed": 2, "model_seed": 3, "id": "B"}
    text = yaml.safe_dump({"cohort": {"cohort-id": "2026-12-C1", "seed_sets": [later]}})
    assert rules.seeds_for("2027-01-C0", rules.seed_sets(text)).model == 3
    with pytest.raises(Problem, match="no seed sets"):
        rules.seed_sets("seeds: 1")


def test_runs_that_are_there_are_not_missing(tmp_path: Path) -> None:
    curve = lab.curve_plan()
    lab.write_run(tmp_path / "r4", 4, judged=True)
    lab.write_run(tmp_path / "r7", 7)
    lab.write_run(tmp_path / "r22", 22, 30, judged=True)
    made = runs.read_runs(tmp_path)
    missing = [point.name for point in plan.missing_points(curve, made)]
    assert missing == ["r7", "r22", "r41", "r75", "r139", "r256"]
    said = "\n".join(plan.text(curve, made))
    assert "r7: it has no accuracy run" in said
    assert "r22: 30 s, 600 s are needed" in said
    assert "still to be run: 6 of 7" in said


def test_passes_follow_from_how_long_answers_take(tmp_path: Path) -> None:
    lab.write_run(tmp_path / "r4", 4, 800, judged=True)
    made = runs.read_runs(tmp_path)
    env = {"CM_MLPERF_ENDPOINTS_MODEL": lab.MODEL, "CM_MLPERF_ENDPOINTS_CMAX": "256",
           "CM_MLPERF_ENDPOINTS_CMIN": "4", "CM_MLPERF_ENDPOINTS_COHORT": lab.COHORT}  # fmt: skip
    curve = inputs.curve_plan(env, made)
    # 13368 answers, 4 * 800 / 13368 s: a pass takes 800 s at 4, and 12.5 s at 256.
    assert [curve.passes(point) for point in curve.points] == [1, 2, 5, 17, 31, 58, 106]


def test_the_client_is_told_seeds_passes_and_data() -> None:
    curve = lab.curve_plan()
    document = configs.configuration(curve, curve.points[0], TARGET, Path("out"))
    assert document["settings"]["runtime"] == {
        "min_duration_ms": 600000,
        "max_duration_ms": 0,
        "n_samples_to_issue": 13368,
        "scheduler_random_seed": 10487924139932647040,
        "dataloader_random_seed": 586478644936801402,
    }
    assert document["settings"]["load_pattern"] == {"type": "concurrency", "target_concurrency": 4}
    assert [entry["type"] for entry in document["datasets"]] == ["performance", "accuracy"]
    free = configs.configuration(curve, curve.points[3], TARGET, Path("out"))
    assert [entry["type"] for entry in free["datasets"]] == ["performance"]


def test_a_rehearsal_sends_some_requests_and_judges_none(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").touch()
    env = {"CM_MLPERF_ENDPOINTS_REHEARSAL": "20"}
    with pytest.raises(Problem, match="needs prompts"):
        inputs.client_target(env, "http://localhost:8000/v1")
    env |= {"CM_MLPERF_ENDPOINTS_DATASET": str(tmp_path / "prompts.jsonl")}
    target = inputs.client_target(env, "http://localhost:8000/v1")
    curve = lab.curve_plan()
    document = configs.configuration(curve, curve.points[0], target, Path("out"))
    assert document["settings"]["runtime"]["n_samples_to_issue"] == 20
    assert [entry["type"] for entry in document["datasets"]] == ["performance"]


def test_a_server_of_its_own_gets_few_connections() -> None:
    env = {"CM_MLPERF_ENDPOINTS_MODEL": lab.MODEL}
    curve = lab.curve_plan()
    own = configs.configuration(
        curve, curve.points[0], inputs.client_target(env, client_runs.OWN_URL), Path("out")
    )
    assert own["settings"]["client"]["warmup_connections"] == 0
    other = configs.configuration(curve, curve.points[0], TARGET, Path("out"))
    assert "warmup_connections" not in other["settings"]["client"]


def test_a_model_whose_data_the_client_does_not_fetch() -> None:
    curve = plan.plan_curve(
        rules.MODELS["deepseek-r1"], "RDI", rules.regions_of(64, 1), rules.PUBLISHED[0], lab.COHORT
    )
    with pytest.raises(Problem, match="no data set that the client fetches"):
        configs.configuration(curve, curve.points[0], TARGET, Path("out"))


CLIENT = """\
#!{python}
import pathlib, re, shutil, sys
text = pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text("utf-8")
report = pathlib.Path(re.search("^report_dir: (.*)$", text, re.MULTILINE)[1])
if report.name == {fails!r}:
    sys.exit("CUDA out of memory")
shutil.copytree(pathlib.Path({runs!r}) / report.name, report)
"""
"""Stands in for inference-endpoint: leaves files that were made before, in no time."""


def _client(folder: Path, fails: str = "") -> str:
    path = folder / "inference-endpoint"
    runs_made = str(folder / "prepared")
    path.write_text(CLIENT.format(python=sys.executable, runs=runs_made, fails=fails), "utf-8")
    path.chmod(0o755)
    return str(path)


def test_what_is_missing_is_run_and_what_is_there_is_not(tmp_path: Path) -> None:
    curve = lab.curve_plan()
    lab.write_runs(tmp_path / "prepared", curve)
    written = configs.write(curve, TARGET, tmp_path)
    call = client_runs.ClientCall(_client(tmp_path, fails="r22"), written)
    with pytest.raises(Problem, match="status 1 at r22") as caught:
        client_runs.run_all(call)
    assert "CUDA out of memory" in caught.value.context[-1]
    made = runs.read_runs(tmp_path / "runs")
    assert plan.missing_points(curve, made)[0].name == "r22"
    client_runs.run_all(client_runs.ClientCall(_client(tmp_path), written[2:]))
    assert plan.missing_points(curve, runs.read_runs(tmp_path / "runs")) == ()


class _Models(http.server.BaseHTTPRequestHandler):
    """Lists one model, whose name YAML would read as a mapping."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "tiny: 1"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_server_of_its_own_says_the_name_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = lab.curve_plan()
    lab.write_runs(tmp_path / "prepared", curve)
    (tmp_path / "tokenizer.json").touch()
    env = {"CM_MLPERF_ENDPOINTS_MODEL": lab.MODEL}
    env[inputs.SERVER_SETTINGS] = json.dumps({"model": str(tmp_path)})
    first, *_ = configs.write(curve, inputs.client_target(env, client_runs.OWN_URL), tmp_path)
    with http.server.HTTPServer(("127.0.0.1", 0), _Models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        monkeypatch.setattr(client_runs, "running", lambda *_: contextlib.nullcontext(url))
        settings = TextServerSettings(str(tmp_path), "vllm")
        client_runs.run_all(client_runs.ClientCall(_client(tmp_path), (first,), settings))
        server.shutdown()
    document = yaml.safe_load(first.read_text("utf-8"))
    assert document["model_params"]["name"] == "tiny: 1"
    assert document["model_params"]["tokenizer_name"] == str(tmp_path)
    assert document["endpoint_config"]["endpoints"] == [url.removesuffix("/v1")]


@pytest.mark.parametrize("script", ["run-mlperf-endpoints", "bench-endpoint"])
def test_each_server_of_ours_is_a_choice(script: str) -> None:
    document = yaml.safe_load((ROOT / "script" / script / "meta.yaml").read_text("utf-8"))
    choices = document["input_description"]["server"]["choices"]
    assert set(choices) == {*ENGINES, "smollm2"}


def test_half_a_run_is_an_error_with_its_file(tmp_path: Path) -> None:
    lab.write_run(tmp_path / "r4", 4)
    (tmp_path / "r4/performance/result_summary.json").write_text('{"n_samples', "utf-8")
    with pytest.raises(Problem, match=r"result_summary\.json") as caught:
        runs.read_runs(tmp_path)
    assert caught.value.code == "no-results"


def test_the_command_plans_without_fetching(home: Home) -> None:
    words = ("run", "script", "--tags=run-mlperf,endpoints,_plan", "--cmax=1024", "--quiet",
             "--model=llama3.1-8b", f"--cohort={lab.COHORT}", "--out=json")  # fmt: skip
    answer = json.loads(home.cm(*words).ok().stdout)
    state = answer["new_state"]["cm-mlperf-endpoints-plan"]
    assert [point["concurrency"] for point in state["points"]] == [1, 5, 13, 35, 189, 440, 1024]
    assert state["missing"][0] == "r1"


def test_no_endpoint_is_an_error_before_anything_is_fetched(home: Home) -> None:
    words = ("run", "script", "--tags=run-mlperf,endpoints", "--cmax=64", f"--model={lab.MODEL}")
    done = home.cm(*words, f"--cohort={lab.COHORT}", "--quiet")
    assert "no endpoint is named" in done.stdout + done.stderr
    assert "get-mlperf-endpoints-src" not in done.stdout + done.stderr


@pytest.mark.parametrize("server", ["smollm2", "vllm"])
def test_a_server_is_a_step_of_its_own_script(home: Home, server: str) -> None:
    words = ("plan", "script", "--tags=run-mlperf,endpoints", "--cmax=64", f"--server={server}")
    done = home.cm(*words, f"--model={lab.MODEL}", f"--cohort={lab.COHORT}", "--tokenizer=T").ok()
    step = {"smollm2": "run-llama-server,_prepared,_smollm2", "vllm": "run-vllm-server,_prepared"}
    assert step[server] in done.stdout
