"""stop-triton-server: which server is asked to end. That it does: run-triton-server's tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step


@pytest.mark.parametrize(("given", "asked"), [({}, None), ({"CM_TRITON_SERVER_STOP_PORT": "9"}, 9)])
def test_the_program_is_told_the_port(tmp_path: Path, given: dict[str, Any], asked: Any) -> None:
    step = Step("stop-triton-server", tmp_path / "entry", dict(given))
    step.call("preprocess")
    request = json.loads(Path(step.env["CM_TRITON_SERVER_REQUEST"]).read_text())
    assert request["port"] == asked
    Path(request["answer"]).write_text('{"ended": []}')
    step.call("postprocess")


def test_a_failure_of_the_program_is_one_of_the_step(tmp_path: Path) -> None:
    step = Step("stop-triton-server", tmp_path / "entry", {})
    step.call("preprocess")
    answer = Path(json.loads(Path(step.env["CM_TRITON_SERVER_REQUEST"]).read_text())["answer"])
    failure = {"kind": "entry-not-found", "text": "no server\n  a line", "hint": "do this"}
    answer.write_text(json.dumps({"failure": failure}))
    with pytest.raises(Error) as caught:
        step.call("postprocess")
    assert (caught.value.code, list(caught.value.context)) == ("entry-not-found", ["a line"])
