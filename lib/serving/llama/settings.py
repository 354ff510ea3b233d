"""Settings of a llama.cpp server, and what its user must know of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from common.problems import bad_value

MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """A model file and how it is served. ``context`` are tokens for each of ``slots`` requests.

    ``threads`` 0 is one for each core. ``cache`` keeps prompts, as llama.cpp does by default.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8080
    slots: int = 4
    context: int = 4096
    threads: int = 0
    cache: str = "yes"

    @property
    def name(self) -> str:
        """Return the name under which the model is served: that of its file."""
        return Path(self.model).stem

    def command(self, python: str) -> tuple[str, ...]:
        """Return the command line of the server."""
        words = (f"--{name}={value}" for name, value in asdict(self).items())
        return (python, "-m", "serving.llama", *words)

    def notes(self) -> Iterator[str]:
        """Yield what makes figures of this server other than they seem."""
        yield f"{self.slots} requests at a time, {self.context} tokens each: more of them wait"
        if self.cache == "yes":
            yield "prompts are cached (llama.cpp's default): --prompt_cache=no for honest repeats"


def read_arguments(arguments: Sequence[str]) -> LlamaSettings:
    """Return the settings that ``LlamaSettings.command`` has written."""
    parser = argparse.ArgumentParser(prog="serving.llama", allow_abbrev=False)
    for item in fields(LlamaSettings):
        kind = int if item.type == "int" else str
        parser.add_argument(f"--{item.name}", type=kind, required=True)
    return LlamaSettings(**vars(parser.parse_args(arguments)))


def require_model(path: str) -> None:
    """Raise Problem where ``path`` is no model in the format GGUF."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(len(MAGIC))
    except OSError as error:
        raise bad_value(f"{path}: {error.strerror}", "--model_path=MODEL.gguf") from error
    if start != MAGIC:
        hint = "llama.cpp's convert_hf_to_gguf.py makes one out of a Hugging Face folder"
        raise bad_value(f"{path} is no model in the format GGUF", hint)
