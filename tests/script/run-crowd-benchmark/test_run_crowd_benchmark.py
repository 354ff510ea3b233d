"""The volunteer's one command: what it refuses early, and what it shows and sends at the end."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crowd_lab import Faulty, Request, measured

from benchmark_lab import SCRIPT, module_of
from cmbench.errors import Error
from cmbench_crowd.client_home import ClientHome
from cmbench_results.result_sources import SourceFiles

customize: Any = module_of(SCRIPT / "run-crowd-benchmark" / "customize.py")


def hook(tmp_path: Path, **env: str) -> dict[str, Any]:
    """What a hook gets, after a run that has left one result."""
    folder = measured(tmp_path / "out")
    SourceFiles(tmp_path / "cmbench").add(folder)
    cmind = SimpleNamespace(repos_path=str(tmp_path))
    return {
        "env": {f"CM_CROWD_{name}": value for name, value in env.items()},
        "state": {"cm-mlperf-inference-results": {"folder": str(folder)}},
        "automation": SimpleNamespace(cmind=cmind),
    }


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ({"UPLOAD": "yes", "CONSENT": "3"}, "needs-input"),
        ({"SERVER": "http://example.org", "CONSENT": "3"}, "bad-value"),
        ({"SERVER": "https://example.org", "UPLOAD": "yes"}, "needs-input"),
        ({"CONSENT": "4"}, "bad-value"),
        ({"SERVER": "https://example.org", "TOKEN_FILE": "/nowhere"}, "file-not-found"),
    ],
)
def test_what_could_not_be_sent_is_refused_before_the_runs(
    tmp_path: Path, env: dict[str, str], code: str
) -> None:
    with pytest.raises(Error) as caught:
        customize.preprocess(hook(tmp_path, **env))
    assert caught.value.code == code


def test_without_a_server_nothing_is_sent_and_it_says_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    i = hook(tmp_path)
    customize.preprocess(i)
    customize.postprocess(i)
    assert "Nothing was sent" in capsys.readouterr().out
    assert ClientHome(tmp_path / "cmbench").consent() == 0
    i = hook(tmp_path, CONSENT="1")
    customize.postprocess(i)
    told = capsys.readouterr().out
    assert "metrics.result" in told
    assert "software" not in told.partition("  empty: ")[0]
    assert "Nothing was sent" in told


def test_with_a_yes_it_is_shown_and_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Faulty() as lab:
        i = hook(tmp_path, SERVER=lab.url, UPLOAD="yes", CONSENT="3", WITHOUT="system.cpu")
        customize.preprocess(i)
        assert (lab.seen, lab.runs) == (1, {}), "only whether it would be taken is asked before"
        customize.postprocess(i)
        assert len(lab.runs) == 1
    told = capsys.readouterr()
    assert "What would leave this machine" in told.err
    filled, _, empty = told.err.partition("  empty: ")
    assert "system.cpu" not in filled
    assert "system.cpu" in empty
    assert "quarantine" in told.out


def test_a_server_without_a_yes_gets_nothing(tmp_path: Path) -> None:
    with Faulty() as lab:
        i = hook(tmp_path, SERVER=lab.url, CONSENT="3")
        with pytest.raises(Error) as caught:
            customize.postprocess(i)
        assert caught.value.code == "not-confirmed"
        assert lab.seen == 0


def refuses(request: Request, number: int) -> bool:
    request.answer(403, {"code": "bad-token", "detail": "this token is not valid"})
    return True


def is_a_year_behind(request: Request, number: int) -> bool:
    request.date_time_string = lambda timestamp=None: formatdate(time.time() - 365 * 86_400)  # type: ignore[method-assign]
    return False


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (refuses, "server-refused", "bad-token: this token is not valid"),
        (is_a_year_behind, "wrong-clock", "365 days ahead of that of http://127.0.0.1"),
    ],
)
def test_what_a_server_would_refuse_in_the_end_is_told_before_the_runs(
    tmp_path: Path, fault: Any, code: str, words: str
) -> None:
    with Faulty(fault) as lab, pytest.raises(Error, match=words) as caught:
        customize.preprocess(hook(tmp_path, SERVER=lab.url, CONSENT="3"))
    assert caught.value.code == code


def test_a_server_that_is_away_does_not_stop_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Faulty() as lab:
        pass
    customize.preprocess(hook(tmp_path, SERVER=lab.url, CONSENT="3"))
    assert f"cm upload crowd last --server={lab.url}" in capsys.readouterr().out
