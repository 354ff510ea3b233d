"""Refuse early what does not exist yet; at the end show the table, and check it by the rules."""

from __future__ import annotations

import os
import socket
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cmbench
from cmbench.errors import Error
from cmbench.lib import capacity, nvidia, vendor_gpus
from cmbench.lib.yes_no import is_yes
from common.text import wrapped
from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Category, Division, run_inputs
from mlperf.catalog.forms import USUAL
from mlperf.harness import entrance
from mlperf.harness.engines import existing_engine
from mlperf.harness.errors import HarnessError
from modelzoo.hooks import hugging_face
from nvidia_mlperf.flow import inputs


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse what cannot be before anything is installed."""
    env = i["env"]
    if is_yes(env.get("CM_MLPERF_FIND_PERFORMANCE_MODE")):
        env["CM_MLPERF_LOADGEN_MODE"] = "find-performance"
    if env.get("CM_MLPERF_LOADGEN_ALL_SCENARIOS") and env.get("CM_MLPERF_LOADGEN_SCENARIO"):
        raise Error(
            "bad-value",
            f"--scenario={env['CM_MLPERF_LOADGEN_SCENARIO']} and the variation _all-scenarios "
            "contradict each other",
            hint="leave out one of the two",
        )
    check_length(env, str(i.get("input", {}).get("tags", "")).split(","))
    if env.get("CM_ML_MODEL_OWN_PATH") or env.get("CM_ML_MODEL_OWN_DATA"):
        take_own(env)
    take_network(env)
    take_nvidia(env)
    take_engine(env)
    check(env)
    find_plugins(env)
    if env.get("CM_MLPERF_SUBMISSION_RUN") == "yes":
        ask_for_all(env)
        check_tree(env)
        run_inputs.scenarios(env)
    shorten(env)
    run = i.get("run_script_input", {}).get("run_state", {})
    env["CM_MLPERF_COMMAND"] = str(run.get("command", ""))
    need, form = run_inputs.need(env), env.get("CM_MLPERF_FORM") or "full"
    if need is not None:
        name = run_inputs.benchmark(env).name
        capacity.check_memory(env, f"the {form} {name}", need.memory, need.hint)
    return {"return": 0}


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse what a run of these inputs would refuse; called by ``cm plan``."""
    env = i["env"]
    check_network(env)
    # What these become is known only in the run.
    own = env.get("CM_ML_MODEL_OWN_PATH") or env.get("CM_ML_MODEL_OWN_DATA")
    if own:
        take_own(dict(env))
    elif env.get("CM_MLPERF_IMPLEMENTATION") not in inputs.IMPLEMENTATIONS:
        check(env)
    return {"return": 0}


def check(env: dict[str, Any]) -> None:
    """Raise CatalogError where benchmark, backend and the request are at odds."""
    check_form(run_inputs.benchmark(env), str(env.get("CM_MLPERF_FORM") or ""))
    run_inputs.options(env, run_inputs.backend(env))
    if env.get("CM_MLPERF_SUBMISSION_RUN") != "yes":
        run_inputs.scenarios(env)
    run_inputs.modes(env)
    run_inputs.precision(env)
    check_devices(env)
    if not env.get("CM_NETWORK_LOADGEN"):
        device = str(env.get("CM_MLPERF_DEVICE") or "")
        vendor_gpus.require(device, is_yes(env.get("CM_TRUST_DEVICE")))
        vendor_gpus.require_python(device, env)
    require_permission(env)


def check_form(spec: BenchmarkSpec, form: str) -> None:
    """Raise Error for a form that a benchmark lacks."""
    if form and form not in forms_of(spec):
        known = catalog.benchmarks()
        able = [name for name in catalog.runnable() if form in forms_of(known[name])]
        text = f"{spec.name} has no _{form}: there is one of {', '.join(able)}"
        raise Error("not-available", text, hint="run _tiny, which every benchmark has")
    if form in spec.refuses:
        reason, _, hint = spec.refuses[form].partition("; ")
        raise Error("not-available", f"{spec.name} has no _{form}: {reason}", hint=hint)


def forms_of(spec: BenchmarkSpec) -> tuple[str, ...]:
    """Return the forms that the scripts of a benchmark make."""
    return spec.assets.forms if spec.assets else USUAL


def check_devices(env: dict[str, Any]) -> None:
    """Raise Error where several GPUs are requested of what uses one, or are no numbers."""
    named = str(env.get("CM_MLPERF_DEVICES") or "")
    if not named or env.get("CM_MLPERF_IMPLEMENTATION") in inputs.IMPLEMENTATIONS:
        return
    spec = run_inputs.backend(env)
    if "devices" not in spec.options or env.get("CM_MLPERF_DEVICE") in (None, "", "cpu"):
        text = f"--devices={named}: {spec.name} on this device does not share samples out"
        hint = (
            "use --backend=pytorch, onnxruntime or tensorrt; or a node for each GPU: --network=lon"
        )
        raise Error("not-available", text, hint=hint)
    if named != "all" and not all(word.strip().isdigit() for word in named.split(",")):
        text = f"--devices={named}: expected numbers with commas between, or all"
        hint = "choose by UUID with `export CUDA_VISIBLE_DEVICES=GPU-UUID`, or MIG-UUID, of which "
        raise Error("bad-value", text, hint=f"{hint}a process sees one: a node for each")


def require_permission(env: dict[str, Any]) -> None:
    """Raise Problem for a full model that neither lies here nor may be fetched."""
    spec = run_inputs.benchmark(env)
    assets = spec.assets
    if assets is None or not assets.gated or env.get("CM_MLPERF_FORM"):
        return
    if not env.get(assets.gated) and not hugging_face.has_token(env):
        raise hugging_face.no_token(spec.name, assets.repository)


def take_nvidia(env: dict[str, Any]) -> None:
    """Let NVIDIA's words become ours; what has no effect is said. Raises Error for the rest."""
    cuda = env.get("CM_MLPERF_DEVICE") == "cuda"
    capabilities = {kind.get("compute_cap", "") for kind in nvidia.kinds()} if cuda else set()
    sorted_capabilities = tuple(
        sorted(capability for capability in capabilities if capability[:1].isdigit())
    )
    inputs.check_fp8(env, sorted_capabilities)
    notes = inputs.take(env, sorted_capabilities)
    if env.get("CM_MLPERF_IMPLEMENTATION") == "reference":
        notes.append("--implementation=reference: cmbench's own harness runs, not MLCommons' code")
    for note in notes:
        print(f"note: {note}")


def take_engine(env: dict[str, Any]) -> None:
    """Check an engine that is passed to the run; raise Error where it cannot be opened."""
    if not env.get("CM_MLPERF_ENGINE_PATH"):
        return
    spec = run_inputs.backend(env)
    if not spec.builds:
        text = f"--engine_path is what --backend=tensorrt or stand-in opens, not {spec.name}"
        raise Error("bad-value", text, hint="leave it out, or choose one of these")
    engine = Path(os.path.abspath(os.path.expanduser(env["CM_MLPERF_ENGINE_PATH"])))
    env["CM_MLPERF_ENGINE_PATH"] = str(engine)
    usual = spec.options["product"].default if "product" in spec.options else ""
    product = run_inputs.options(env, spec).get("product") or str(usual)
    try:
        existing_engine.check_engine(engine, spec.name, product)
    except HarnessError as error:
        error.code = "engine-missing"
        raise


NO_ERROR = "a test run does not end with an error for that (with --strict it does)."
# The variations of the length of a run, as words of --execution_mode.
LENGTHS = {"_short": "test", "_full": "valid"}


def check_length(env: dict[str, Any], tags: Sequence[str]) -> None:
    """Say what decides how long the runs are, and what ``_full`` does not mean."""
    style = str(env.get("CM_MLPERF_RUN_STYLE") or "test")
    for tag, usual in LENGTHS.items():
        if tag in tags and style != usual:
            print(
                f"note: --execution_mode={style} decides how long the runs are; without it {tag}\n"
                f"  means {usual}"
            )
    if "_full" in tags and env.get("CM_MLPERF_FORM") == "tiny":
        print(
            "note: _full is the length of the runs (10 minutes each), _tiny the size of the\n"
            "  model; the real model is measured without _tiny"
        )


SERVERS = "CM_NETWORK_LOADGEN_SUT_SERVERS"


def check_network(env: dict[str, Any]) -> str:
    """Return the requested side of a network run; raise Error for what it does not support."""
    side = str(env.get("CM_NETWORK_LOADGEN") or "")
    if side not in ("lon", "sut", ""):
        raise Error("bad-value", f"--network={side} is not known", hint="use lon or sut")
    token = str(env.get("CM_NETWORK_LOADGEN_SUT_TOKEN_FILE") or "")
    if side == "sut":
        entrance.of_node(node_address(env), token)
    elif side == "lon":
        entrance.addresses(servers(env))
        entrance.read_token(token)
    return side


def node_address(env: dict[str, Any]) -> str:
    """Where a node listens."""
    return str(env.get("CM_NETWORK_LOADGEN_SUT_ADDRESS") or f"127.0.0.1:{entrance.PORT}")


def servers(env: dict[str, Any]) -> str:
    """Return the nodes that LoadGen queries, joined by commas; raise Error where none is named."""
    value = env.get(SERVERS) or ""
    text = ",".join(value) if isinstance(value, list) else str(value)
    if not text:
        hint = "add --sut_servers=HOST:PORT,HOST:PORT"
        raise Error("needs-input", "no node is named that LoadGen could ask", hint=hint)
    return text


def take_network(env: dict[str, Any]) -> None:
    """Check a request of several machines; raise Error for what they do not support."""
    side = check_network(env)
    if not side:
        return
    if side == "sut":
        place = node_address(env)
        print(f"this machine becomes a node at {place}, until Ctrl-C; LoadGen's machine asks it")
        print("  with the same command and --network=lon --sut_servers=HOST:PORT")
        return
    env[SERVERS] = servers(env)
    if any(is_here(place) for place in env[SERVERS].split(",")):
        # The node has this machine to itself, and must not be waited for.
        env["CM_MLPERF_LOCK"] = "loadgen of a network"
    if env["CM_MLPERF_SUBMISSION_DIVISION"] == Division.CLOSED:
        # The closed division is measured on one system; this one has its rules and more.
        env["CM_MLPERF_SUBMISSION_DIVISION"] = Division.NETWORK.value
    if env["CM_MLPERF_SUBMISSION_DIVISION"] == Division.NETWORK:
        ask_for_datacenter(env)


def is_here(place: str) -> bool:
    """Return whether ``place``, HOST:PORT or a URL, is an address of this machine."""
    with suppress(OSError, ValueError):
        host = urlsplit("//" + place.strip().rpartition("://")[2]).hostname
        if not host:  # which would be looked up as this machine
            return False
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            # Only an address of one's own can be bound, whatever card or bridge has it.
            with socket.socket(family, kind) as probe, suppress(OSError):
                probe.bind(address)
                return True
    return False


def ask_for_datacenter(env: dict[str, Any]) -> None:
    """The network division has the datacenter's scenarios only; raises Error for others."""
    category = env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or Category.DATACENTER.value
    if category != Category.DATACENTER:
        hint = "use --category=datacenter, or --division=open"
        raise Error("bad-value", f"the network division has no {category}", hint=hint)
    env["CM_MLPERF_SUBMISSION_SYSTEM_TYPE"] = category


# The benchmark of any ONNX file: its specification and its part of the harness.
OWN = os.path.join(cmbench.LIBRARIES, "mlperf", "own_models")


def take_own(env: dict[str, Any]) -> None:
    """Make an ONNX file of the user's the model; raises Error where that cannot be."""
    path, data = env.get("CM_ML_MODEL_OWN_PATH"), env.get("CM_ML_MODEL_OWN_DATA")
    if not path:
        hint = "name the ONNX file too: --model_path=FILE"
        raise Error("needs-input", "--data_path is the data of a model of your own", hint=hint)
    for key, words in (
        ("CM_MLPERF_FORM", "_tiny, _synthetic or _small"),
        ("CM_MLPERF_PLUGINS", "--plugins"),
    ):
        if env.get(key):
            raise Error("bad-value", f"{words} and --model_path contradict each other")
    if env.get("CM_MLPERF_MODEL_PRECISION") == "int8":
        problem = (
            "--precision=int8 and --model_path contradict each other: only a benchmark's model"
        )
        hint = "leave out --precision, or quantize the file yourself and name that one"
        raise Error("bad-value", f"{problem} is quantized here", hint=hint)
    env["CM_MLPERF_MODEL"] = "benchmark.own"
    env["CM_MLPERF_PLUGINS"] = OWN
    env["CM_MLPERF_SUBMISSION_DIVISION"] = "open"
    stem = os.path.splitext(os.path.basename(path))[0]
    # What was measured of one model is no target of another.
    sut = os.path.join("~", "mlperf-inference-results", "sut-own", stem)
    env["CM_MLPERF_SUT_DIR"] = env.get("CM_MLPERF_SUT_DIR") or os.path.expanduser(sut)
    if env["CM_MLPERF_LOADGEN_MODE"] == "all" and not has_labels(data):
        env["CM_MLPERF_LOADGEN_MODE"] = "performance"


def has_labels(data: str | None) -> bool:
    """Whether an .npz file has labels to judge answers by."""
    try:
        with zipfile.ZipFile(data or "") as archive:
            return "labels.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def find_plugins(env: dict[str, Any]) -> None:
    """Export the needs of the user's own benchmark and backend to app-mlperf-inference."""
    if not run_inputs.own_folder(env):
        return
    plugins = run_inputs.of_plugins(env)
    env["CM_MLPERF_PLUGINS"] = plugins.folder
    # All by their names: a plan sees here that they are known only at run time.
    env["CM_MLPERF_PLUGIN_MODEL"] = plugins.model
    env["CM_MLPERF_PLUGIN_DATA"] = plugins.data
    env["CM_MLPERF_PLUGIN_PACKAGE_1"] = plugins.package(1)
    env["CM_MLPERF_PLUGIN_PACKAGE_2"] = plugins.package(2)
    env["CM_MLPERF_PLUGIN_PACKAGE_3"] = plugins.package(3)


def shorten(env: dict[str, Any]) -> None:
    """Let the requested number of queries end a test run, instead of its duration."""
    count = env.get("CM_TEST_QUERY_COUNT")
    if count and env["CM_MLPERF_RUN_STYLE"] == "test":
        least, duration = "CM_MLPERF_INFERENCE_MIN_QUERY_COUNT", "CM_MLPERF_INFERENCE_MIN_DURATION"
        env[least] = env.get(least) or count
        env[duration] = env.get(duration) or "1"


def ask_for_all(env: dict[str, Any]) -> None:
    """Set the defaults of a submission that the command line does not set."""
    if not env.get("CM_MLPERF_LOADGEN_SCENARIO"):
        env["CM_MLPERF_LOADGEN_ALL_SCENARIOS"] = "yes"
    if env.get("CM_MLPERF_SUBMISSION_DIVISION") in (Division.CLOSED, Division.NETWORK):
        env["CM_MLPERF_LOADGEN_COMPLIANCE"] = "yes"
    if not env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE"):
        edge = run_inputs.benchmark(env).required(env["CM_MLPERF_INFERENCE_VERSION"], "edge")
        env["CM_MLPERF_SUBMISSION_SYSTEM_TYPE"] = "edge" if edge else "datacenter"


def check_tree(env: dict[str, Any]) -> None:
    """Raise what the tree would be refused for, before hours of runs and not after them."""
    from mlperf.submission import build, inputs

    if inputs.is_set(env, "CM_MLPERF_SKIP_SUBMISSION_GENERATION"):
        return
    if run_inputs.backend(env).compiles and env.get("CM_MLPERF_DEVICE", "cpu") == "cpu":
        raise Error(
            "bad-value",
            "--device=cpu with what is compiled for Neuron stands in for a device (rule "
            "result.stand-in): such runs cannot be submitted",
            hint="measure on the device, such as --device=inf2, or choose another --backend",
        )
    if not env.get("CM_MLPERF_SUBMITTER"):
        raise Error(
            "needs-input",
            "no submitter is named",
            hint="add --submitter=NAME to the command",
        )
    build.check_name(env["CM_MLPERF_SUBMITTER"], "--submitter")
    build.refuse_foreign(inputs.tree(env))


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the table; raises Error when a rule is broken, after the results are shown."""
    env = i["env"]
    if env.get("CM_NETWORK_LOADGEN") == "sut":
        return {"return": 0}
    with open(env["CM_MLPERF_INFERENCE_RESULTS_SUMMARY"], encoding="utf-8") as file:
        print(file.read(), end="")
    results = i["state"]["cm-mlperf-inference-results"]
    problems = results["problems"]
    # Writing about results that are there already succeeds whatever they are worth.
    if results["modes"] == ["readme"]:
        return {"return": 0}
    keep(i, results["folder"])
    # The generator gets the runs of this length: the folder may hold shorter or longer ones too.
    env["CM_MLPERF_INFERENCE_RESULTS_DIR_"] = os.path.dirname(os.path.dirname(results["folder"]))
    broken = checked(results)
    excused = [problem for problem in problems if is_excused(problem, results, env)]
    if refused_ones := [problem for problem in problems if problem not in excused]:
        raise refused(refused_ones, results["folder"])
    if broken:
        raise against_rules(broken, results["folder"])
    if excused:
        print(warned(excused))
    return {"return": 0}


def keep(i: dict[str, Any], folder: str) -> None:
    """Let ``cm … results`` know of these results, whatever they are worth."""
    if not run_inputs.is_set({"CM_MLPERF_REGISTER": "yes", **i["env"]}, "CM_MLPERF_REGISTER"):
        return
    from cmbench_results.result_sources import SourceFiles

    home = os.path.join(i["automation"].cmind.repos_path, "cmbench")
    try:
        SourceFiles(home).add(Path(folder))
    except Error as problem:
        # A search for targets leaves none, and that is no news.
        if i["env"].get("CM_MLPERF_LOADGEN_MODE") != "find-performance":
            print(f"note: these results are not kept for cm find results: {problem.message}")
        return
    # The database of results is an extra, and a next command must be one that runs.
    if find_spec("sqlalchemy"):
        print("next:   cm show results last")


def is_excused(problem: dict[str, Any], results: dict[str, Any], env: dict[str, Any]) -> bool:
    """Whether a test run is not accepted for its host or its length, and that is no error."""
    submitted = env.get("CM_MLPERF_SUBMISSION_RUN") == "yes"
    strict = run_inputs.is_set(env, "CM_MLPERF_STRICT") or submitted
    why = problem["fault"].get("host") or problem["fault"].get("short")
    return results["style"] == "test" and not strict and bool(why)


def warned(problems: list[dict[str, Any]]) -> str:
    """That runs do not count because the host was busy, with its figures, or for their length."""
    busy = [problem for problem in problems if problem["fault"].get("host")]
    short = [problem for problem in problems if problem not in busy]
    texts = []
    if busy:
        texts.append(
            f"warning: {_runs(busy)} not accepted because the host was busy; {NO_ERROR} "
            "Run it again when nothing else runs."
        )
    if short:
        texts.append(
            f"warning: {_runs(short)} not accepted because the speed differs from that of the "
            f"result, in runs that are too short to tell; {NO_ERROR} "
            "Runs of --execution_mode=valid are compared."
        )
    return "\n".join(line for text in texts for line in wrapped(text, rest="  "))


def _runs(problems: list[dict[str, Any]]) -> str:
    named = dict.fromkeys(f"{problem['scenario']} {problem['mode']}" for problem in problems)
    return " and ".join(named)


def checked(results: dict[str, Any]) -> Sequence[Any]:
    """Check the finished runs as for a submission; print and return the faults."""
    from mlperf.harness import records
    from mlperf.harness.reporting.results import Results
    from mlperf.submission import after_run

    decoded = records.decode(Results, results)
    verdict = after_run.check(decoded)
    for line in after_run.lines(verdict, decoded):
        print(line)
    faults: Sequence[Any] = verdict.faults
    return faults


def refused(problems: list[dict[str, Any]], folder: str) -> Error:
    """Return the error for results that are not accepted: broken rules and their remedies."""
    first = problems[0]
    count = len({(problem["scenario"], problem["mode"]) for problem in problems})
    runs = "one run is" if count == 1 else f"{count} runs are"
    return Error(
        "result-not-accepted",
        f"{runs} not accepted: {first['scenario']} {first['mode']}, rule: {first['fault']['rule']}",
        context=[
            *(
                f"{problem['scenario']} {problem['mode']}: {problem['fault']['text']}"
                for problem in problems
            ),
            f"all results were kept in {folder}",
        ],
        hint=first["fault"]["advice"],
    )


def against_rules(broken: Sequence[Any], folder: str) -> Error:
    """The error for runs that LoadGen accepts and a submission's checks do not."""
    from mlperf.submission.verdict import counted

    first = broken[0]
    return Error(
        "result-not-accepted",
        f"{counted(broken)}; first: {first.rule}: {first.found}",
        context=[f"{first.where}, all results were kept in {folder}"],
        hint=first.mend,
    )
