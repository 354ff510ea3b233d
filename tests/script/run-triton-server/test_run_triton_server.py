"""run-triton-server: what it is told, what it refuses, and a real server that leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import triton_lab
from cmbench.errors import Error
from cmbench.lib.text_files import read_or_empty
from common.problems import Problem
from serving.server import (
    background,
    container,
    foreground,
    keeper,
    ports,
    remains,
    server,
    server_log,
)
from serving.server.server import LateError
from serving.server.server_spec import ServerSpec
from serving.server.settings import KeeperSettings, Ports, new_mark, read
from steps import Step
from support import HANG_S, LIB, ROOT, python_env, wait_for

META = ROOT / "script/run-triton-server/meta.yaml"
KILLS = int(os.environ.get("CMBENCH_KILLS", "4"))
LOG = """\
I1122 10:00:00.1 7 server.cc:674]
+-------+---------+-----------------------------------------+
| Model | Version | Status                                  |
+-------+---------+-----------------------------------------+
| bad   | 1       | UNAVAILABLE: Internal: ModuleNotFoundEr |
| good  | 1       | READY                                   |
+-------+---------+-----------------------------------------+

Error: Failed to initialize NVML
E1122 10:00:00.2 7 model_lifecycle.cc:642] "failed to load 'bad' version 1: Internal: \
ModuleNotFoundError: No module named 'onnxruntime'\\n\\nAt:\\n  /m/bad/1/model.py(3): <module>\\n"
I1122 10:00:00.3 7 grpc_server.cc:2558] "Started GRPCInferenceService at 0.0.0.0:8001"
"""


def request(**env: str) -> dict[str, str]:
    return {
        "CM_TRITON_SERVER_BACKGROUND": "no",
        "CM_TRITON_SERVER_HOST": "127.0.0.1",
        "CM_TRITON_SERVER_PORTS": "auto",
        "CM_TRITON_SERVER_PRINT": "no",
        "CM_TRITON_SERVER_TIMEOUT": "60",
        "CM_TRITON_SERVER_BIN_WITH_PATH": "/x/tritonserver",
        **env,
    }


def refused(tmp_path: Path, **env: str) -> Error:
    with pytest.raises(Error) as caught:
        Step("run-triton-server", tmp_path / "entry", request(**env)).call("preprocess")
    return caught.value


# ---------------------------------------------------------------- what it is told


def test_what_is_asked_for_reaches_the_program(tmp_path: Path) -> None:
    env = {"CM_TRITON_SERVER_MODELS": "a, b", "CM_TRITON_MODEL_REPOSITORY": str(tmp_path)}
    step = Step("run-triton-server", tmp_path / "entry", request(**env))
    step.call("preprocess")
    asked = json.loads(Path(step.env["CM_TRITON_SERVER_REQUEST"]).read_text())
    assert (asked["models"], asked["ports"], asked["background"]) == (["a", "b"], [], False)
    assert asked["repository"] == str(tmp_path)
    words = ServerSpec("/x/t", "/m", ("a", "b")).command(Ports(1, 2, 3), "mark-")
    assert words[-3:] == ["--model-control-mode=explicit", "--load-model=a", "--load-model=b"]
    assert "--metrics-port=3" in words
    assert "--backend-config=python,shm-region-prefix-name=mark-" in words


@pytest.mark.parametrize("given", ["8000", "8000,8001", "8000,8000,8002", "a,b,c", "0,1,2", ""])
def test_ports_that_are_none_are_told(tmp_path: Path, given: str) -> None:
    text = str(refused(tmp_path, CM_TRITON_SERVER_PORTS=given, CM_TRITON_MODEL_REPOSITORY="/m"))
    assert "three different ports" in text


def test_a_server_is_for_this_machine_unless_it_is_to_be_for_others() -> None:
    meta = yaml.safe_load(META.read_text("utf-8"))
    assert meta["default_env"]["CM_TRITON_SERVER_HOST"] == "127.0.0.1"
    assert meta["input_description"]["host"]["default"] == "127.0.0.1"


def test_a_repository_is_needed(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "needs-input"
    with pytest.raises(Problem, match="is not a folder of models"):
        server.start(ServerSpec("/bin/true", str(tmp_path / "none")), tmp_path)


def test_a_container_needs_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    env = {"CM_TRITON_MODEL_REPOSITORY": "/m", "CM_TRITON_SERVER_IN_CONTAINER": "yes"}
    images = {"CM_TRITON_SERVER_IMAGE": "i:1", "CM_TRITON_SERVER_SDK_IMAGE": "i:1-sdk"}
    assert refused(tmp_path, **env, **images).code == "no-engine"
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    error = refused(tmp_path, **env, **images)
    assert error.context == ("docker: exit status 1: Cannot connect to the daemon",)
    assert error.hint.endswith("cm run script --tags=run,triton-server --model_repository=/m")
    (tmp_path / "podman").write_text("#!/bin/sh\n")
    (tmp_path / "podman").chmod(0o755)
    step = Step("run-triton-server", tmp_path / "entry", request(**env, **images))
    step.call("preprocess")
    asked = json.loads(Path(step.env["CM_TRITON_SERVER_REQUEST"]).read_text())
    assert asked["engine"] == "podman", "the one that answers"


def test_the_containers_are_started_as_the_guide_has_it(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("neuron10", "neuron0", "neuron2", "neuron", "neuron_x", "neuron1.old"):
        (tmp_path / "dev" / name).touch()
    found = container.devices(tmp_path)
    assert found == ["/dev/neuron0", "/dev/neuron2", "/dev/neuron10"]
    one = container.ServerContainer(
        "docker", "tritonserver:22.04-py3", "/home/u/models", "t", found
    )
    assert " ".join(one.server(Ports(8000, 8001, 8002), "0.0.0.0")) == (
        "docker run --rm --name t --device /dev/neuron0 --device /dev/neuron2 "
        "--device /dev/neuron10 -v /home/u/models:/home/u/models -v /lib/udev:/mylib/udev "
        "--shm-size=1g --ulimit memlock=-1 --ulimit stack=67108864 -p 8000:8000 "
        "-p 8001:8001 -p 8002:8002 tritonserver:22.04-py3 "
        "tritonserver --model-repository /home/u/models"
    )
    assert " ".join(one.client()).endswith("--net host tritonserver:22.04-py3 /bin/bash")
    wanted = ServerSpec("", "/m", ("a",), engine="podman", image="i")
    assert wanted.command(Ports(1, 2, 3), "cmtriton-0-ab-")[-1] == "--load-model=a"
    assert wanted.finish("cmtriton-0-ab-") == (("podman", "rm", "--force", "cmtriton-0-ab"),)


# What guide 003 starts the server with, one by one; without a terminal, as there is no shell in it.
GUIDE = (
    "-v /lib/udev:/mylib/udev", "--shm-size=1g", "--ulimit memlock=-1", "-p 8000:8000",
    "-p 8001:8001", "-p 8002:8002", "--ulimit stack=67108864",
    "nvcr.io/nvidia/tritonserver:22.04-py3",
)  # fmt: skip


def test_every_flag_of_the_guide_is_there() -> None:
    image = "nvcr.io/nvidia/tritonserver:22.04-py3"
    found = [f"/dev/neuron{number}" for number in range(4)]
    one = container.ServerContainer("docker", image, "/home/ubuntu/python_backend", "t", found)
    line = " ".join(one.server(container.usual_ports(), "0.0.0.0"))
    for flag in (*GUIDE, *(f"--device {device}" for device in found)):
        assert f" {flag} " in line, flag
    assert "-v /home/ubuntu/python_backend:/home/ubuntu/python_backend" in line
    assert "-p 127.0.0.1:9:8000" in " ".join(one.server(Ports(9, 2, 3), "127.0.0.1"))


def test_a_log_tells_its_table_its_addresses_and_which_model_failed() -> None:
    assert [line.split()[1] for line in server_log.table(LOG)[3:-1]] == ["bad", "good"]
    assert server_log.started(LOG)[0].endswith('"Started GRPCInferenceService at 0.0.0.0:8001"')
    (why,) = server_log.failures(LOG).values()
    assert why == (
        "Internal: ModuleNotFoundError: No module named 'onnxruntime' "
        "(at /m/bad/1/model.py(3): <module>)"
    )
    error = server.failed(LOG, "/l/server.log")
    assert str(error).startswith("the model bad failed: Internal")
    assert "finds no onnxruntime: --adr.triton-server.tags=_onnxruntime" in error.hint
    assert "/l/server.log" in error.hint
    assert error.hint_without("/l") == error.hint.splitlines()[0]
    for module, words in (("torch", "tags=_pytorch"), ("pandas", "first python3 in PATH")):
        assert words in server_log.cause(f"No module named '{module}'")
    assert any("there is no GPU" in line for line in server_log.shown(LOG))
    assert server_log.table("") == server_log.started("") == []
    assert "failed to stat" in str(server.failed("error: failed to stat file /x", "l"))


# ---------------------------------------------------------------- ports, keepers, leftovers


def test_a_server_that_is_late_says_which_models_it_waits_for() -> None:
    log = """I1 model_lifecycle.cc:472] "loading: good:1"
I1 model_lifecycle.cc:472] "loading: slow one:3"
I1 model_lifecycle.cc:472] "loading: bad:1"
I1 model_lifecycle.cc:839] "successfully loaded 'good'"
E1 model_lifecycle.cc:642] "failed to load 'bad' version 1: Internal: no torch"
"""
    error = server.late(log, "/log", LateError("server-failed", "not ready in time", "longer"))
    assert str(error).splitlines() == [
        "not ready in time",
        "  the model bad failed: Internal: no torch",
        "  the model slow one is still loading",
    ]
    assert error.hint.splitlines() == ["longer", "its whole log: /log"]


def test_a_name_that_a_shell_would_read_is_refused_before_a_server_hangs(tmp_path: Path) -> None:
    (tmp_path / "a model" / "1").mkdir(parents=True)
    (tmp_path / "a model" / "1" / "model.py").write_text("")
    with pytest.raises(Problem, match="'a model'"):
        server.start(ServerSpec("/no/launcher", str(tmp_path)), tmp_path / "server")


def test_a_taken_port_is_told_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(Problem, match=rf"port {port} .*process {os.getpid()}") as caught:
            ports.require_free("127.0.0.1", Ports(port, 1, 2))
    assert caught.value.code == "port-taken"
    found = ports.free("127.0.0.1")
    assert len(set(found.each())) == 3
    ports.require_free("127.0.0.1", found)


def sleeper(folder: Path, owned: bool = True) -> KeeperSettings:
    """A command that leaves a child and a region, as a server does."""
    mark = new_mark()
    program = (
        "import os, subprocess, time\n"
        f"open('/dev/shm/{mark}region', 'w').close()\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    return KeeperSettings((sys.executable, "-c", program), mark, str(folder), owned=owned)


def nothing_left(mark: str) -> bool:
    return not remains.processes(mark) and not remains.regions(mark)


@pytest.mark.parametrize("victim", ["owner", "outer", "inner", "server"])
def test_whoever_is_killed_nothing_is_left(tmp_path: Path, victim: str) -> None:
    kept = sleeper(tmp_path)
    process = server.keep(kept)
    wait_for(lambda: "up" in server.read_log(kept))
    assert remains.regions(kept.mark)
    (inner,) = children(process.pid)
    (program,) = children(inner)
    if victim == "owner":
        assert process.stdin is not None
        process.stdin.close()
    else:
        os.kill({"outer": process.pid, "inner": inner, "server": program}[victim], signal.SIGKILL)
    wait_for(lambda: nothing_left(kept.mark))
    process.wait(HANG_S)
    server.end(kept, process)


@pytest.mark.parametrize("owned", [True, False])
def test_only_a_server_without_an_owner_has_time_to_end(tmp_path: Path, owned: bool) -> None:
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    command = (sys.executable, "-c", program)
    kept = KeeperSettings(command, new_mark(), str(tmp_path), owned=owned)
    process = server.keep(kept)
    wait_for(lambda: "up" in server.read_log(kept))
    process.terminate()
    process.wait(HANG_S)
    assert nothing_left(kept.mark)
    assert ("asked" in server.read_log(kept)) is not owned


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()]


def test_a_keeper_that_nobody_owns_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    kept = sleeper(tmp_path, owned=False)
    assert read(kept.write()) == kept
    process = server.keep(kept)
    wait_for(lambda: "up" in server.read_log(kept))
    server.end(kept, process)
    assert nothing_left(kept.mark)


def test_what_ends_a_container_is_run_at_the_end(tmp_path: Path) -> None:
    told = tmp_path / "told"
    finish = (("touch", str(told)), ("/none/such",))
    kept = KeeperSettings(("true",), new_mark(), str(tmp_path / "k"), finish)
    server.keep(kept).wait(HANG_S)
    assert told.exists()


@pytest.mark.parametrize("there", [True, False])
def test_what_an_owner_needs_goes_only_where_it_has_gone(tmp_path: Path, there: bool) -> None:
    needed = tmp_path / "models"
    needed.mkdir()
    remove = (("rm", "-rf", "--", str(needed)),)
    command = ("true",) if there else ("sleep", "600")
    kept = replace(KeeperSettings(command, new_mark(), str(tmp_path / "k")), orphaned=remove)
    process = server.keep(kept)
    assert process.stdin is not None
    if not there:
        process.stdin.close()
    process.wait(HANG_S)
    assert needed.exists() is there


def test_the_reason_of_a_server_that_ends_is_told_although_its_log_has_gone(tmp_path: Path) -> None:
    program = tmp_path / "tritonserver"
    program.write_text("#!/bin/sh\necho no stub for this Python\nrm server.log\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(Problem, match=r"ended\s+no stub for this Python"):
        server.start(ServerSpec(str(program), str(tmp_path)), tmp_path / "server")


def test_leftovers_of_a_server_that_is_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    kept = sleeper(tmp_path)
    process = server.keep(kept)
    wait_for(lambda: "up" in server.read_log(kept))
    gone = Path(f"/dev/shm/{new_mark()}region")
    gone.touch()
    foreign = Path(f"/dev/shm/other-{os.getpid()}")
    foreign.touch()
    remains.remove_stale_regions()
    assert not gone.exists()
    assert foreign.exists()
    assert remains.regions(kept.mark)
    foreign.unlink()
    server.end(kept, process)
    assert keeper.GRACE_S < server.GRACE_S


def test_servers_in_the_background_are_noted_and_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    found = []
    for port in (7001, 7002):
        kept = sleeper(background.new_place(), owned=False)
        process = server.keep(kept)
        wait_for(lambda kept=kept: "up" in server.read_log(kept))
        one = server.RunningServer("127.0.0.1", Ports(port, 1, 2), "2", kept, process)
        background.note(one)
        found.append(one)
    with pytest.raises(Problem, match="at the ports 7001, 7002"):
        background.stop(None)
    with pytest.raises(Problem, match="no server of ours has the port 80"):
        background.stop(80)
    assert [facts["port"] for facts in background.stop(7001)] == [7001]
    assert nothing_left(found[0].kept.mark)
    assert list(background.noted()) == [7002]
    assert len(background.stop(None)) == 1
    assert background.stop(None) == []
    for one in found:
        one.keeper.wait(HANG_S)
    assert list(background.home().iterdir()) == []


# ---------------------------------------------------------------- the real server


def echo(folder: Path, program: str = "") -> Path:
    """A repository with one model that answers with what it gets, or does as ``program`` says."""
    model = folder / "re po" / "echo"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        'name: "echo"\nbackend: "python"\nmax_batch_size: 8\n'
        'input { name: "x" data_type: TYPE_FP32 dims: [ 3 ] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }\n'
        "instance_group { kind: KIND_CPU count: 2 }\n"
    )
    (model / "1" / "model.py").write_text(
        program
        or "import triton_python_backend_utils as pb\n"
        "class TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        "        arrays = [pb.get_input_tensor_by_name(r, 'x').as_numpy() for r in requests]\n"
        "        return [pb.InferenceResponse([pb.Tensor('y', a)]) for a in arrays]\n"
    )
    return model.parent


def wanted(folder: Path, **more: Any) -> ServerSpec:
    return ServerSpec(str(triton_lab.installed().launcher), str(echo(folder)), **more)


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_real_server_becomes_ready_and_leaves_nothing(tmp_path: Path) -> None:
    with server.running(wanted(tmp_path, models=("echo",)), tmp_path / "a folder") as found:
        assert found.version == "2.51.0"
        lines = "\n".join(server_log.shown(found.log()))
        assert "| echo  | 1       | READY  |" in lines
        assert len(server_log.started(found.log())) == 3
        assert remains.regions(found.kept.mark)
        mark = found.kept.mark
    assert nothing_left(mark)


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
        ("class Other: pass\n", "TritonPythonModel"),
    ],
)
def test_a_model_that_fails_is_named_with_its_reason(
    tmp_path: Path, program: str, says: str
) -> None:
    asked = ServerSpec(str(triton_lab.installed().launcher), str(echo(tmp_path, program)))
    with pytest.raises(Problem, match="the model echo failed") as caught:
        server.start(asked, tmp_path / "folder")
    assert says in str(caught.value)
    assert not remains.regions(read(tmp_path / "folder" / "keeper.json").mark)


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_model_whose_process_is_killed_as_it_starts_is_not_waited_for(tmp_path: Path) -> None:
    folder, asked, ended = tmp_path / "folder", wanted(tmp_path), threading.Event()
    (program,) = Path(asked.repository).glob("*/*/model.py")
    program.write_text("import time\ntime.sleep(600)\n")

    def kill() -> None:
        """Whatever is started: a server may ask one process for its configuration first."""
        mark = wait_for(lambda: mark_of(folder))
        while not ended.wait(0.01):
            for pid in remains.processes(mark):
                with contextlib.suppress(ProcessLookupError):
                    if comm(pid) == remains.STUB:
                        os.kill(pid, signal.SIGKILL)

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill)
        try:
            # A server that has heard of its process already says so itself.
            with pytest.raises(Problem, match=r"echo was killed while it loaded|not healthy"):
                server.start(asked, folder)
        finally:
            ended.set()
        killed.result()
    assert nothing_left(read(folder / "keeper.json").mark)


def comm(pid: int) -> str:
    return read_or_empty(f"/proc/{pid}/comm").strip()


@pytest.mark.slow
@pytest.mark.needs_index
def test_killed_at_any_moment_nothing_is_left(tmp_path: Path) -> None:
    """``CMBENCH_KILLS=200`` for the long run: owner, keepers, server and stubs in turn."""
    chance = random.Random(int(os.environ.get("CMBENCH_SEED", "1")))
    asked = wanted(tmp_path)
    for number in range(KILLS):
        folder = tmp_path / f"f{number}"
        owner = owned_server(asked, folder)
        mark = wait_for(lambda folder=folder: mark_of(folder))
        time.sleep(chance.uniform(0.0, 2.0))
        victims = [pid for pid in remains.processes(mark) if pid != owner.pid]
        chosen = [owner.pid, *victims]
        os.kill(chosen[number % len(chosen)], signal.SIGKILL)
        if number % len(chosen):
            time.sleep(0.2)
            owner.kill()
        owner.wait()
        wait_for(lambda mark=mark: nothing_left(mark))


def mark_of(folder: Path) -> str:
    path = folder / "keeper.json"
    try:
        return read(path).mark if remains.processes(read(path).mark) else ""
    except (OSError, ValueError):
        return ""


def owned_server(asked: ServerSpec, folder: Path) -> subprocess.Popen[bytes]:
    """A process that owns a server until it is killed."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom serving.server import server\n"
        "from serving.server.server_spec import ServerSpec\n"
        "with server.running(ServerSpec(sys.argv[1], sys.argv[2]), Path(sys.argv[3])):\n"
        "    time.sleep(600)\n"
    )
    words = [sys.executable, "-c", program, asked.launcher, asked.repository, str(folder)]
    env = python_env(LIB)
    return subprocess.Popen(words, env=env, cwd=ROOT, stderr=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_script_serves_in_the_background_and_in_the_foreground(tmp_path: Path) -> None:
    found = triton_lab.installed()
    repository = f"--model_repository={echo(tmp_path)}"
    tags = "--tags=run,triton-server"
    path = f"--adr.triton-server.path={found.launcher.parent}"
    more = (tags, repository, "--ports=auto", "--host=127.0.0.1", path)
    up = found.home.cm("run", "script", *more, "--background", "--out=json").ok().json
    url = up["new_env"]["CM_TRITON_SERVER_URL"]
    again = found.home.cm("run", "script", tags, f"--url={url}", "--load_model=echo").ok()
    assert f"{url}: triton 2.51.0, ready" in again.stdout
    taken = found.home.cm("run", "script", *more, f"--ports={url.rpartition(':')[2]},1025,1026")
    assert "port-taken" in taken.stderr
    port = url.rpartition(":")[2]
    down = found.home.cm("run", "script", "--tags=stop,triton-server", f"--port={port}").ok()
    assert f"ended: the server at {url}" in down.stdout
    environment = found.home.environment()
    command = [str(found.home.bin / "cm"), "run", "script", *more]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as front:  # fmt: skip
        assert front.stdout is not None
        lines = []
        for line in front.stdout:
            lines.append(line)
            if "its whole log" in line:
                break
        assert any("READY" in line for line in lines)
        mark = next(word for word in "".join(lines).split() if "prefix-name=" in word)
        mark = mark.rpartition("=")[2]
        os.killpg(front.pid, signal.SIGINT)
        front.communicate(timeout=HANG_S)
    assert front.returncode == 130
    wait_for(lambda: nothing_left(mark))


# Stands where docker does: it notes how it is called, and runs the server of the wheel, which like
# one in a container has nothing of its caller's environment and does not end with it.
ENGINE = """#!{python}
import json, os, signal, subprocess, sys, time

folder, words = {folder!r}, sys.argv[1:]
if words[0] == "version":
    sys.exit()
with open(folder + "/told", "a") as told:
    told.write(json.dumps(words) + "\\n")
if words[0] == "image":
    sys.exit(not os.path.exists(folder + "/pulled"))
if words[0] == "pull":
    print("Status: Downloaded newer image for " + words[1], flush=True)
    open(folder + "/pulled", "w").close()
    sys.exit(words[1] == "none:1")
if words[0] == "rm":
    pid = int(open(folder + "/" + words[-1]).read())
    os.kill(pid, signal.SIGTERM)
    while os.path.exists("/proc/%d" % pid):
        time.sleep(0.05)
    sys.exit()
image = next(n for n, word in enumerate(words) if word == "tritonserver") - 1
ports = [word.split(":")[-2] for flag, word in zip(words, words[1:]) if flag == "-p"]
names = ("http", "grpc", "metrics")
listen = ["--%s-address=127.0.0.1" % name for name in names]
listen += ["--%s-port=%s" % pair for pair in zip(names, ports)]
name = words[words.index("--name") + 1]
# In a container /dev/shm goes with it.
listen.append("--backend-config=python,shm-region-prefix-name=" + name)
server = subprocess.Popen(
    [{launcher!r}, *words[image + 2:], *listen],
    env={{"PATH": os.defpath}},
    start_new_session=True,
)
with open(folder + "/" + name, "w") as file:
    file.write(str(server.pid))
sys.exit(server.wait())
"""


def engine(folder: Path) -> Path:
    """A folder for PATH with the program in the place of docker."""
    path = folder / "bin" / "docker"
    path.parent.mkdir()
    launcher = str(triton_lab.installed().launcher)
    path.write_text(ENGINE.format(python=sys.executable, folder=str(folder), launcher=launcher))
    path.chmod(0o755)
    return path.parent


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_a_container_is_told_before_it_runs_and_gone_with_its_owner(
    tmp_path: Path, ends: signal.Signals
) -> None:
    home, places = triton_lab.installed().home, engine(tmp_path)
    environment = home.environment()
    environment["PATH"] = f"{places}{os.pathsep}{environment['PATH']}"
    repository = echo(tmp_path).rename(tmp_path / "models")
    tags = "--tags=run,triton-server,_container"
    words = [f"--model_repository={repository}", "--ports=auto", "--host=127.0.0.1"]
    command = [str(home.bin / "cm"), "run", "script", tags, *words]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as front:  # fmt: skip
        assert front.stdout is not None
        lines = []
        for line in front.stdout:
            lines.append(line.rstrip())
            if "its whole log" in line:
                break
        os.killpg(front.pid, ends)
        front.communicate(timeout=HANG_S)
    text = "\n".join(lines)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    (run,) = (words for words in told if words[0] == "run")
    assert [words[0] for words in told][:3] == ["image", "pull", "run"], "pulled, then started"
    assert text.index("docker pull") < text.index("Downloaded newer") < text.index("docker run")
    assert text.index("docker run") < text.index("| READY  |")
    name = run[run.index("--name") + 1]
    wait_for(lambda: ["rm", "--force", name] in [
        json.loads(line) for line in (tmp_path / "told").read_text().splitlines()
    ])  # fmt: skip
    pid = int((tmp_path / name).read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    for region in remains.regions(name):
        region.unlink()


def test_a_server_in_the_foreground_ends_where_its_owner_went_before_it_was_there(
    tmp_path: Path,
) -> None:
    kept = KeeperSettings(("true",), "mark", str(tmp_path))
    kept.log.write_text("")
    with subprocess.Popen(["sleep", "60"]) as child:
        gone = os.getpid()  # Any process that did not start this one.
        assert foreground.follow(kept, child, print, gone) == 0
        child.kill()


def test_an_image_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    path = tmp_path / "docker"
    path.write_text("#!/bin/sh\n[ $1 = pull ] && echo denied\nexit 1\n")
    path.chmod(0o755)
    said: list[str] = []
    with pytest.raises(Problem, match="cannot get the image none:1") as caught:
        container.fetch(str(path), "none:1", said.append)
    assert said == [f"{path} pull none:1"]
    assert "--adr.triton-server.image" in caught.value.hint
