"""Servers that are programs of their own: vLLM and transformers serve, as stand-ins.

vLLM 0.32 and transformers 5.24 were run by hand on a CPU; in these tests a small server takes
their place and records the command line that it was started with.
"""

from __future__ import annotations

import importlib.util
import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

import support
from common import python_path
from common.problems import Problem
from serving.text_server import gguf_header, memory_need, owned, refusals
from serving.text_server.engines import ENGINES
from serving.text_server.settings import TextServerSettings

GGUF = support.ROOT / "script/get-ml-model-llama3/tiny/model.gguf"
# Answers /health, after it has written down what it was called with; or it ends as it is told to.
STAND_IN = """
import http.server, json, os, subprocess, sys

words = sys.argv[1:]
# As vLLM's, which rename themselves: nothing of the environment is seen of them any more.
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={})
with open(os.environ["STAND_IN_CALL"], "w") as file:
    keys = ("HF_HUB_OFFLINE", "OMP_NUM_THREADS", "VLLM_NO_USAGE_STATS")
    json.dump([words, {key: os.environ.get(key) for key in keys}, [os.getpid(), worker.pid]], file)
end = os.environ.get("STAND_IN_END")
if end:
    print("INFO: loading", flush=True)
    sys.exit(end)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


port = int(next(word for word in words if word.startswith("--port=")).partition("=")[2])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
MODULES = {
    "vllm": "vllm/entrypoints/cli/main.py",
    "transformers": "transformers/cli/transformers.py",
}


def is_running(pid: int) -> bool:
    """Return whether it has not ended; who waits for it may not have noticed yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(64))
    return folder


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the call of a stand-in, which is on the path of its Python."""
    packages = tmp_path / "packages"
    for path in MODULES.values():
        file = packages / path
        file.parent.mkdir(parents=True)
        file.write_text(STAND_IN)
        for folder in (file.parent, *file.parent.parents):
            if folder == packages:
                break
            (folder / "__init__.py").touch()
    monkeypatch.setenv(python_path.VARIABLE, str(packages))
    monkeypatch.setenv("STAND_IN_CALL", str(tmp_path / "call.json"))
    for key in ("HF_HUB_OFFLINE", "OMP_NUM_THREADS", "VLLM_NO_USAGE_STATS", "STAND_IN_END"):
        monkeypatch.delenv(key, raising=False)
    return tmp_path / "call.json"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            TextServerSettings("", "vllm", slots=8, context=256, cache="no", dtype="float32"),
            ["--served-model-name=small", "--max-num-seqs=8", "--max-model-len=256",
             "--dtype=float32", "--generation-config=vllm", "--no-enable-prefix-caching"],
        ),
        (TextServerSettings("", "transformers"), ["--dtype=auto", "--continuous-batching"]),
    ],
)  # fmt: skip
def test_a_server_is_started_with_its_own_words_and_ends_with_the_block(
    settings: TextServerSettings, words: list[str], model: Path, call: Path, tmp_path: Path
) -> None:
    settings = replace(settings, model=str(model), threads=3)
    with owned.running(settings, tmp_path / "server") as url:
        port = url.rpartition(":")[2].removesuffix("/v1")
        spoken, environment, processes = json.loads(call.read_text())
    assert spoken == ["serve", str(model), "--host=127.0.0.1", f"--port={port}", *words]
    assert (environment["HF_HUB_OFFLINE"], environment["OMP_NUM_THREADS"]) == ("1", "3")
    assert environment["VLLM_NO_USAGE_STATS"] == ("1" if settings.engine == "vllm" else None)
    assert not any(is_running(pid) for pid in processes)
    log = (tmp_path / "server" / "server.log").read_text()
    assert all(f"note: {note}" in log for note in settings.notes())


def test_a_port_that_another_process_takes_meanwhile_is_not_the_end(
    model: Path, call: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TextServerSettings(str(model), "vllm")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        taken_port = taken.getsockname()[1]
        chosen, free_port = [taken_port], owned.free_port
        monkeypatch.setattr(
            owned, "free_port", lambda host: chosen.pop() if chosen else free_port(host)
        )
        with owned.running(settings, tmp_path / "server") as url:
            assert str(taken_port) not in url
    assert call.is_file()


@pytest.mark.parametrize(
    ("end", "message", "hint"),
    [
        ("ValueError: unknown architecture", "vLLM has ended", "is the model whole"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "out of memory", "fewer --slots"),
        ("ValueError: No available memory for the cache blocks.", "out of memory", "--context"),
    ],
)
def test_a_server_that_dies_at_the_start_says_its_own_cause(
    end: str, message: str, hint: str, model: Path, call: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("STAND_IN_END", end)
    settings = TextServerSettings(str(model), "vllm")
    with (
        pytest.raises(Problem, match=message) as caught,
        owned.running(settings, tmp_path / "server"),
    ):
        pass
    assert call.is_file()
    assert (caught.value.code, hint in caught.value.hint) == ("server-failed", True)
    assert end in caught.value.context


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_package_is_named_before_a_server_starts(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    kind = ENGINES[engine]
    with pytest.raises(Problem, match=f"this Python has no {kind.module}") as caught:
        refusals.require_all(TextServerSettings("", engine))
    assert kind.package in caught.value.hint


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_what_a_program_refuses_is_the_failure_of_its_owner(model: Path, tmp_path: Path) -> None:
    settings = TextServerSettings(str(model), "vllm")
    with pytest.raises(Problem) as caught, owned.running(settings, tmp_path / "server"):
        pass
    assert "install vllm there" in caught.value.hint
    assert any("this Python has no vllm" in line for line in caught.value.context)


def test_a_taken_port_is_said_with_who_has_it(model: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        settings = TextServerSettings(str(model), "vllm", port=one.getsockname()[1])
        with pytest.raises(Problem, match=rf"port {settings.port} cannot be used") as caught:
            refusals.require_port(settings)
    assert (caught.value.code, "--port=NUMBER" in caught.value.hint) == ("port-taken", True)


def test_a_model_must_be_a_folder_of_its_kind(model: Path, tmp_path: Path) -> None:
    folder = TextServerSettings(str(model), "vllm")
    refusals.require_model(folder)
    with pytest.raises(Problem, match="not a model in the format GGUF") as caught:
        refusals.require_model(replace(folder, engine="llama"))
    assert "run,vllm-server" in caught.value.hint
    (model / "model.safetensors").unlink()
    with pytest.raises(Problem, match="has no weights for vLLM"):
        refusals.require_model(folder)
    for name, message in (("absent", "no such folder"), ("model.gguf", "vLLM opens a folder")):
        with pytest.raises(Problem, match=message):
            refusals.require_model(replace(folder, model=str(tmp_path / name)))
    (model / "config.json").unlink()
    with pytest.raises(Problem, match=r"no config\.json"):
        refusals.require_model(folder)


def test_weights_beyond_the_memory_of_a_machine_without_a_gpu_are_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TextServerSettings(str(model), "vllm")
    monkeypatch.setattr(refusals, "ACCELERATORS", ())
    refusals.require_memory(settings)
    monkeypatch.setattr(memory_need, "weight_bytes", lambda _settings: 10**16)
    with pytest.raises(Problem, match=r"10000000\.0 GB of weights; .* no GPU") as caught:
        refusals.require_memory(settings)
    assert caught.value.code == "too-little-memory"
    monkeypatch.setattr(refusals, "ACCELERATORS", (model,))
    monkeypatch.setattr(memory_need, "gpu_bytes", lambda: None)
    refusals.require_memory(settings)
    monkeypatch.setattr(memory_need, "gpu_bytes", lambda: 80 * 10**9)
    with pytest.raises(Problem, match="the largest GPU of this machine has 80 GB"):
        refusals.require_memory(settings)
    monkeypatch.setattr(memory_need, "gpu_bytes", lambda: 10**16)
    refusals.require_memory(settings)


CONFIG = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("engine", "changed", "token_bytes"),
    [
        ("vllm", {}, 131072),
        ("vllm", {"num_key_value_heads": None, "torch_dtype": "float32"}, 1048576),
        ("vllm", {"head_dim": 64}, 65536),
        ("vllm", {"sliding_window": 4096}, 0),
        ("vllm", {"num_hidden_layers": "many"}, 0),
        ("transformers", {}, 0),
    ],
)
def test_keys_and_values_of_a_checkpoint(
    tmp_path: Path, engine: str, changed: dict[str, object], token_bytes: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changed))
    settings = TextServerSettings(str(tmp_path), engine, slots=4, context=1000)
    assert memory_need.cache_bytes(settings) == 1000 * token_bytes


def test_keys_and_values_of_every_slot_count_before_llama_cpp_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "ACCELERATORS", ())
    settings = TextServerSettings(str(GGUF), "llama", slots=4, context=1000)
    # Two layers with 2 heads of 32 keys and 32 values, as float16.
    assert memory_need.cache_bytes(settings) == 4 * 1000 * 2 * 2 * (32 + 32) * 2
    refusals.require_memory(settings)
    with pytest.raises(Problem, match=r"keys and values take 512000\.0 GB") as caught:
        refusals.require_memory(replace(settings, slots=10**6, context=10**6))
    assert "--context" in caught.value.hint


def test_a_damaged_header_says_what_comes_before(tmp_path: Path) -> None:
    whole = GGUF.read_bytes()
    facts = gguf_header.read(GGUF)
    assert facts["general.architecture"] == "llama"
    for end in (*range(0, 60, 7), 500):
        (tmp_path / "cut.gguf").write_bytes(whole[:end])
        found = gguf_header.read(tmp_path / "cut.gguf")
        assert found.items() <= facts.items()
    assert gguf_header.read(tmp_path / "absent.gguf") == {}
