"""Fetch a Llama of MLPerf from Hugging Face.

    python -m modelzoo.llama.fetch --model llama3 --out DIR [--token-file FILE]

The access token is that of the file, of ``HF_TOKEN``, or of a login; it is shown nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelzoo import program
from modelzoo.llama.published import PUBLISHED, PublishedLlama
from modelzoo.program import ProgramError

FILES = ["*.json", "*.safetensors", "LICENSE*", "USE_POLICY*"]


def fetch(model: PublishedLlama, out: Path, token_file: Path | None) -> str:
    """Fetch the files into ``out``; raise ProgramError where the server refuses."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    repository = model.repository
    token = token_file.read_text(encoding="utf-8").strip() if token_file else None
    try:
        snapshot_download(
            repository, revision=model.revision, local_dir=out, allow_patterns=FILES, token=token
        )
    except HfHubHTTPError as error:
        raise ProgramError(
            f"Hugging Face does not give {repository} out: {type(error).__name__}",
            f"accept the licence at https://huggingface.co/{repository} with the account of the "
            "token, then run the command again",
        ) from error
    return f"fetched: {repository} at {model.revision[:12]}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--token-file", type=Path, help="file with the access token")
    parser.add_argument("--model", choices=list(PUBLISHED), required=True)
    options = parser.parse_args(arguments)
    model = PUBLISHED[options.model]
    return program.run("fetch", lambda: fetch(model, options.out, options.token_file))


if __name__ == "__main__":
    sys.exit(main())
