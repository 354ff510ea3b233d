"""What is refused before a server starts: no model, no package, no port, no memory."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from common import weight_files
from common.problems import Problem, bad_value
from serving.server import ports

from . import gguf_header, memory_need
from .engines import FOLDER
from .settings import TextServerSettings

# Where a driver of GPUs, whose memory counts then, shows itself.
ACCELERATORS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


def require_model(settings: TextServerSettings) -> None:
    """Raise Problem where the model is not what its engine opens."""
    if settings.kind.opens == FOLDER:
        _require_folder(settings)
    else:
        _require_gguf(settings.model)


def _require_folder(settings: TextServerSettings) -> None:
    folder, title = Path(settings.model), settings.kind.title
    if (folder / "config.json").is_file():
        if any(path.suffix in weight_files.SUFFIXES for path in folder.iterdir()):
            return
        hint = "fetch it whole: it has no *.safetensors"
        raise bad_value(f"{folder} has no weights for {title}", hint)
    if folder.suffix == ".gguf":
        hint = "serve this file with `cm run script --tags=run,llama-server`"
        raise bad_value(f"{folder}: {title} opens {FOLDER}", hint)
    text = "there is no such folder" if not folder.exists() else "it has no config.json"
    raise bad_value(f"{folder}: {text}", f"--model_path={FOLDER}")


def _require_gguf(path: str) -> None:
    if Path(path, "config.json").is_file():
        hint = (
            "serve this folder with `cm run script --tags=run,vllm-server`, or make a file with "
            "llama.cpp's convert_hf_to_gguf.py"
        )
        raise bad_value(f"{path} is a folder, not a model in the format GGUF", hint)
    try:
        with open(path, "rb") as stream:
            start = stream.read(len(gguf_header.MAGIC))
    except OSError as error:
        raise bad_value(f"{path}: {error.strerror}", "--model_path=MODEL.gguf") from error
    if start != gguf_header.MAGIC:
        hint = "llama.cpp's convert_hf_to_gguf.py makes one out of a Hugging Face folder"
        raise bad_value(f"{path} is no model in the format GGUF", hint)


def require_package(settings: TextServerSettings) -> None:
    """Raise Problem where this Python lacks the engine's package."""
    kind = settings.kind
    if importlib.util.find_spec(kind.module) is None:
        raise Problem(
            "import-failed",
            f"this Python has no {kind.module}, which is {kind.title}",
            hint=f"install {kind.package} there, or give another one: --adr.python.tags=...",
        )


def require_port(settings: TextServerSettings) -> None:
    """Raise Problem where the port is taken, and say by whom."""
    ports.require_one_free(settings.host, settings.port, "choose another one with --port=NUMBER")


def require_memory(settings: TextServerSettings) -> None:
    """Raise Problem where weights, keys and values are more than the memory that may hold them."""
    weights, cached = memory_need.weight_bytes(settings), memory_need.cache_bytes(settings)
    total, whose = _memory(settings)
    if total is None or weights + cached <= total:
        return
    text = f"{settings.name} has {weights / 1e9:.1f} GB of weights"
    hint = "serve a smaller model, or one whose weights are quantized"
    if cached:
        text += f", and its keys and values take {cached / 1e9:.1f} GB"
        hint = f"a shorter --context, fewer --slots, or {hint.removeprefix('serve ')}"
    raise Problem("too-little-memory", f"{text}; {whose}", hint=hint)


def _memory(settings: TextServerSettings) -> tuple[int | None, str]:
    """Return the bytes that may hold the model, and whose they are; None where not known."""
    own = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not any(path.exists() for path in ACCELERATORS):
        return own, f"this machine has {own / 1e9:.0f} GB of memory and no GPU"
    gpu = memory_need.gpu_bytes()
    if gpu is None:
        return None, ""
    if not settings.kind.spreads:
        return gpu, f"the largest GPU of this machine has {gpu / 1e9:.0f} GB of memory"
    return own + gpu, f"this machine and its GPU have {(own + gpu) / 1e9:.0f} GB of memory"


def require_all(settings: TextServerSettings) -> None:
    """Raise Problem for what would only fail later, in the words of the engine."""
    require_package(settings)
    require_model(settings)
    require_memory(settings)
    require_port(settings)
