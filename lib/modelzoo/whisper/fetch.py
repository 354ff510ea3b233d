"""Fetch Whisper large v3 from Hugging Face, at the revision of MLPerf's reference implementation.

python -m modelzoo.whisper.fetch --out DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelzoo import program
from modelzoo.program import ProgramError

REPOSITORY = "openai/whisper-large-v3"
# Source: README of speech2text of MLPerf's reference implementation.
REVISION = "06f233fe06e710322aca913c1bc4249a0d71fce1"
FILES = ["config.json", "tokenizer.json", "model.safetensors", "README.md"]


def fetch(out: Path) -> str:
    """Fetch the files into ``out``; raise ProgramError where the server does not answer."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(REPOSITORY, revision=REVISION, local_dir=out, allow_patterns=FILES)
    except Exception as error:  # errors of HTTP come from a library behind it
        raise ProgramError(
            f"{REPOSITORY} cannot be fetched from Hugging Face: {type(error).__name__}",
            "check the connection, or fetch it elsewhere and give --checkpoint=FOLDER",
        ) from error
    return f"fetched: {REPOSITORY} at {REVISION[:12]}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = program.parser(__doc__).parse_args(arguments)
    return program.run("fetch", lambda: fetch(options.out))


if __name__ == "__main__":
    sys.exit(main())
