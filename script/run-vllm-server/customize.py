"""Write the server's command line."""

from __future__ import annotations

from typing import Any

from serving.text_server.inputs import hand_over


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Problem for a model that is none, before anything is started."""
    return hand_over(i["env"], "vllm")
