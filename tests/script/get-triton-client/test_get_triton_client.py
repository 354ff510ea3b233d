"""The script: the client is on the path of what comes after it, and tells its protocols."""

from __future__ import annotations

from collections.abc import Callable

from common.python_path import VARIABLE
from support import ROOT, Finished


def test_it_puts_the_client_on_the_path(cm: Callable[..., Finished]) -> None:
    env = cm("run", "script", "--tags=get,triton-client", "--out=json").ok().json["new_env"]
    assert env[f"+{VARIABLE}"] == [str(ROOT / "lib")]
    assert env["CM_TRITON_CLIENT_PROTOCOLS"] in ("http", "http,grpc")
