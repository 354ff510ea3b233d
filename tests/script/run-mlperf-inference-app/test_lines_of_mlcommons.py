"""Command lines in the form in which MLCommons' pages and the READMEs of CM and MLC write them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from cmind.cli import parse

from cmbench.errors import Error
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from support import ROOT

TAGS = "run-mlperf,inference"
MINE = {"onnxruntime", "pytorch", "tensorrt"}
MODELS = {
    "resnet50": ("onnxruntime", "tensorflow", "deepsparse"),
    "retinanet": ("onnxruntime", "pytorch"),
    "bert-99": ("pytorch", "deepsparse"),
    "3d-unet-99": ("pytorch",),
    "gptj-99": ("pytorch",),
    "dlrm-v2-99": ("pytorch",),
    "rnnt": ("pytorch",),
}
"""Benchmarks that both have, with the frameworks of the pages."""
LANGUAGE_MODELS = ("llama3_1-8b", "llama2-70b-99", "llama2-70b-99.9")
OTHER_MODELS = ("sdxl", "mixtral-8x7b", "llama3_1-405b", "pointpainting", "rgat")


def lines() -> Iterator[tuple[str, str]]:
    """Each line, and the flag that is refused, or an empty text."""
    rounds = ("_r4.1-dev", "_r5.0-dev", "_r5.1-dev", "_r6.0-dev")
    places = (("edge", "SingleStream", ""), ("datacenter", "Server", " --server_target_qps=10"))
    for (model, frameworks), code in itertools.product(MODELS.items(), rounds):
        for framework, device in itertools.product(frameworks, ("cpu", "cuda", "rocm")):
            common = f"--model={model} --implementation=reference --framework={framework}"
            bad = "framework" if framework not in MINE else ""
            for category, scenario, more in places:
                first = f"{common} --category={category} --scenario=Offline --execution_mode=test"
                first += f" --device={device}"
                find = f"{TAGS},_find-performance,_full,{code}"
                yield f"run --tags={find} {first} --quiet --test_query_count=100 --rerun", bad
                docker = f"{first} --docker --quiet --test_query_count=100 --rerun"
                yield f"docker --tags={find} {docker}", bad
                valid = f"{common} --category={category} --execution_mode=valid --device={device}"
                one = f"{valid} --scenario={scenario}{more} --quiet"
                yield f"run --tags={TAGS},_full,{code} {one}", bad
                yield f"run --tags={TAGS},_full,{code},_all-scenarios {valid}{more} --quiet", bad
                short = f"{first} --quiet --adr.compiler.tags=gcc"
                yield f"run --tags={TAGS},_short,{code} {short}", bad
    for model in (*LANGUAGE_MODELS, *OTHER_MODELS):
        bad = "model" if model in OTHER_MODELS else ""
        yield f"run --tags={TAGS},_full,_r5.1-dev --model={model} --device=cpu --quiet", bad
    yield from FLAGS


BASE = f"run --tags={TAGS},_short,_r4.1-dev --model=resnet50 --quiet"
TAKEN = """
pip_loadgen=yes power=no time repro debug dump_version_info=yes print_env v j
lang=reference implementation=mlcommons-python find_performance=yes skip_truncation=yes
clean clean=yes gpu_name=rtx_4090 custom_system_nvidia=yes readme=yes regenerate_files=yes
regenerate_accuracy_file=yes save_console_log=yes pull_changes=yes push_to_github=no
output_summary=a output_tar=a.tar.gz preprocess_submission=yes dashboard_wb_user=me
dashboard_wb_project=cm-mlperf get_platform_details=yes submitter_id=1 submitter=CTuning
use_dataset_from_host=yes use_model_from_host=yes client_id=a client_secret=b
use_service_account=yes test_qps=3 nvidia_system_name=x docker_keep_alive=yes docker=no
docker=False docker= hw_name=vm threads=4 batch_size=2 min_query_count=5 min_duration=100
target_qps=5 target_latency=5 division=open compliance=no rerun results_dir=out mode=accuracy
mode=performance precision=int8 env.CM_A=b adr.python.version_min=3.8 adr.python.name=mine
pull_inference_changes=yes podman_storage_root=/x sw_notes_extra=a hw_notes_extra=a status=available
"""
REFUSED = """
print_deps
power=yes all_models=yes sut=x tp_size=2 api_server=http://localhost:8000 vllm_model_name=x
nm_model_zoo_stub=zoo:x waymo_path=/x beam_size=1 vllm_tp_size=2 criteo_day23_raw_data_path=/x
dlrm_data_path=/x results_git_url=x push_to_github=yes rgat_checkpoint_path=/x
imagenet_preprocessed_path=/x pointpainting_checkpoint_path=/x deeplab_resnet50_path=/x backend=tf
number_of_processes_per_gpu_node=2 nvidia_llama2_dataset_file_path=/x max_test_duration=5
implementation=intel implementation=qualcomm device=qaic
"""
FLAGS = [
    *((f"{BASE} --{flag}", "") for flag in TAKEN.split()),
    *((f"{BASE} --{flag}", flag.partition("=")[0]) for flag in REFUSED.split()),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("home")), [str(ROOT)])


def test_each_line_means_what_it_says_or_is_refused_with_a_reason(workspace: Workspace) -> None:
    faults = []
    for line, refused in lines():
        verb, *words = line.split()
        call = Call(workspace, parse(["run", "script", *words])["cm_input"])
        try:
            container = call.asks_for_container()
            if container != (verb == "docker"):
                faults.append(f"{line}: is it for a container?")
            request = call.request()
            if refused or any("knows no flag" in text for text in request.warnings):
                faults.append(f"{line}: {request.warnings}, not refused")
        except Error as error:
            if not refused or f"--{refused}" not in error.message or not error.hint:
                faults.append(f"{line}: {error.message}: {error.hint}")
    assert not faults, "\n".join(faults[:20])
