"""What differs between the servers of language models: one value for each.

An engine runs under the Python of its packages, as the command line that its value spells; only
llama.cpp, which has no program in its wheel, runs within ours.
"""

from __future__ import annotations

from dataclasses import dataclass

GGUF, FOLDER = "a file in the format GGUF", "a folder in Hugging Face's layout, with config.json"


@dataclass(frozen=True, slots=True)
class TextEngine:
    """A server and its traps.

    ``module`` and ``package`` are what Python imports and installs. ``opens`` says what a model is.
    ``words`` follow Python on the command line, with fields of the settings in braces; empty for
    one that runs within our process. ``cached`` and ``uncached`` are further words that keep
    prompts or not, ``together`` those for more than one request at a time. ``environment`` has
    the variables that the server needs. ``caching`` says what stays cached unless it is switched
    off; ``traps`` are what else makes its figures other than they seem. ``unverified`` is what was
    never run here. ``spreads`` says whether it uses the memory of the machine beside that of a GPU,
    ``keeps_room_for`` for how many requests there is room from the start: all, one, or none.
    """

    name: str
    title: str
    module: str
    package: str
    opens: str
    words: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    uncached: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    caching: str = ""
    traps: tuple[str, ...] = ()
    unverified: str = ""
    spreads: bool = True
    keeps_room_for: str = "none"


OFFLINE = (("HF_HUB_OFFLINE", "1"), ("DO_NOT_TRACK", "1"))
NO_CACHE = "--prompt_cache=no for honest repeats"
LLAMA_CPP = TextEngine(
    name="llama",
    title="llama.cpp",
    module="xllamacpp",
    package="xllamacpp",
    opens=GGUF,
    caching=f"prompts are cached (llama.cpp's default): {NO_CACHE}",
    traps=("{slots} requests at a time, {context} tokens each: more of them wait",),
    keeps_room_for="all",
)
VLLM = TextEngine(
    name="vllm",
    title="vLLM",
    module="vllm",
    package="vllm",
    opens=FOLDER,
    words=(
        *("-m", "vllm.entrypoints.cli.main", "serve", "{model}", "--host={host}", "--port={port}"),
        *("--served-model-name={name}", "--max-num-seqs={slots}", "--max-model-len={context}"),
        # Otherwise the model's generation_config.json changes how answers are sampled.
        *("--dtype={dtype}", "--generation-config=vllm"),
    ),
    cached=("--enable-prefix-caching",),
    uncached=("--no-enable-prefix-caching",),
    environment=(*OFFLINE, ("VLLM_NO_USAGE_STATS", "1")),
    caching=f"prefixes of prompts are cached (vLLM's default): {NO_CACHE}",
    traps=(
        "{slots} requests at a time, {context} tokens each: more of them wait",
        "several tokens may come in one event: count them by usage, not by events",
        "the same prompt may be answered otherwise in another batch",
    ),
    unverified="vLLM on a GPU; version 0.32 was on a CPU",
    spreads=False,
    keeps_room_for="one",
)
TRANSFORMERS = TextEngine(
    name="transformers",
    title="transformers serve",
    module="transformers",
    package="transformers[serving] and torch",
    opens=FOLDER,
    words=(
        *("-m", "transformers.cli.transformers", "serve", "{model}"),
        *("--host={host}", "--port={port}", "--dtype={dtype}"),
    ),
    together=("--continuous-batching",),
    environment=OFFLINE,
    traps=(
        "one request at a time with --slots=1; with more, equal prompts share their cache",
        "the first answer may take a minute, as batching warms up with it",
        "--context does not limit it: a prompt is as long as the model allows",
    ),
    unverified="transformers serve on a GPU; version 5.24 was on a CPU",
)
ENGINES = {engine.name: engine for engine in (LLAMA_CPP, VLLM, TRANSFORMERS)}
