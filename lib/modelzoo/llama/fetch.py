"""Fetch Llama 3.1 8B from Hugging Face, at the revision of MLPerf's reference implementation.

    python -m modelzoo.llama.fetch --out DIR [--token-file FILE]

The access token is that of the file, of ``HF_TOKEN``, or of a login; it is shown nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelzoo import program
from modelzoo.program import ProgramError

REPOSITORY = "meta-llama/Llama-3.1-8B-Instruct"
# Source: README of language/llama3.1-8b of MLPerf's reference implementation.
REVISION = "be673f326cab4cd22ccfef76109faf68e41aa5f1"
FILES = ["*.json", "*.safetensors", "LICENSE*", "USE_POLICY*"]


def fetch(out: Path, token_file: Path | None) -> str:
    """Fetch the files into ``out``; raise ProgramError where the server refuses."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    token = token_file.read_text(encoding="utf-8").strip() if token_file else None
    try:
        snapshot_download(
            REPOSITORY, revision=REVISION, local_dir=out, allow_patterns=FILES, token=token
        )
    except HfHubHTTPError as error:
        raise ProgramError(
            f"Hugging Face does not give {REPOSITORY} out: {type(error).__name__}",
            f"accept the licence at https://huggingface.co/{REPOSITORY} with the account of the "
            "token, then run the command again",
        ) from error
    return f"fetched: {REPOSITORY} at {REVISION[:12]}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--token-file", type=Path, help="file with the access token")
    options = parser.parse_args(arguments)
    return program.run("fetch", lambda: fetch(options.out, options.token_file))


if __name__ == "__main__":
    sys.exit(main())
