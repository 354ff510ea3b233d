"""What ``--network`` is refused for, before anything is installed."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error

customize = lab.module_of(lab.SCRIPT / "run-mlperf-inference-app" / "customize.py")


def env(**changes: Any) -> dict[str, Any]:
    return {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_SUBMISSION_DIVISION": "closed", **changes}


def taken(**changes: Any) -> dict[str, Any]:
    found = env(**changes)
    customize.take_network(found)
    return found


def test_without_it_nothing_changes() -> None:
    assert taken() == env()


def test_loadgens_side_is_the_network_division_of_the_datacenter() -> None:
    found = taken(CM_NETWORK_LOADGEN="lon", CM_NETWORK_LOADGEN_SUT_SERVERS=["http://a:1", "b"])
    assert found["CM_NETWORK_LOADGEN_SUT_SERVERS"] == "http://a:1,b"
    assert found["CM_MLPERF_SUBMISSION_DIVISION"] == "network"
    assert found["CM_MLPERF_SUBMISSION_SYSTEM_TYPE"] == "datacenter"
    more = {"CM_NETWORK_LOADGEN": "lon", "CM_NETWORK_LOADGEN_SUT_SERVERS": "a"}
    assert "CM_MLPERF_LOCK" not in taken(**more)
    opened = taken(**more, CM_MLPERF_SUBMISSION_DIVISION="open")
    assert "CM_MLPERF_SUBMISSION_SYSTEM_TYPE" not in opened


def own_address() -> str:
    """The address at which other machines reach this one; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # nothing is sent: it only chooses a card
        return str(probe.getsockname()[0])
    return "127.0.0.1"


@pytest.mark.parametrize(
    ("servers", "here"),
    [
        ("a,127.0.0.1:1", True),
        (" http://localhost:8089", True),
        ("[::ffff:127.0.0.1]:1", True),
        ("0.0.0.0:1", True),
        (f"{own_address()}:8089", True),
        ("192.0.2.1:8089,no-such-host.invalid", False),
        (f"a{'b' * 70}.c:1", False),
        ("192.0.2.1:8089,", False),
    ],
)
def test_a_node_on_this_machine_is_not_waited_for(servers: str, here: bool) -> None:
    more = {"CM_NETWORK_LOADGEN": "lon", "CM_NETWORK_LOADGEN_SUT_SERVERS": servers}
    # The node has the lock "machine" as long as it serves.
    assert ("CM_MLPERF_LOCK" in taken(**more)) is here


@pytest.mark.parametrize("place", ["", " ", ":8089", "http://", "[", "[]"])
def test_what_names_no_host_is_no_address_of_this_machine(place: str) -> None:
    assert not customize.is_here(place)


@pytest.mark.parametrize(
    ("division", "tests"), [("closed", "yes"), ("network", "yes"), ("open", None)]
)
def test_a_submission_has_compliance_tests_where_the_rules_want_them(
    division: str, tests: str | None
) -> None:
    found = env(CM_MLPERF_SUBMISSION_DIVISION=division, CM_MLPERF_INFERENCE_VERSION="5.0")
    customize.ask_for_all(found)
    assert found.get("CM_MLPERF_LOADGEN_COMPLIANCE") == tests


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"CM_NETWORK_LOADGEN": "both"}, "--network=both is not known"),
        ({"CM_NETWORK_LOADGEN": "lon"}, "no node is named"),
        (
            {
                "CM_NETWORK_LOADGEN": "lon",
                "CM_NETWORK_LOADGEN_SUT_SERVERS": "a",
                "CM_MLPERF_SUBMISSION_SYSTEM_TYPE": "edge",
            },
            "the network division has no edge",
        ),
        (
            {"CM_NETWORK_LOADGEN": "sut", "CM_NETWORK_LOADGEN_SUT_ADDRESS": "0.0.0.0:8089"},
            r"everybody who reaches 0\.0\.0\.0:8089 could use this node",
        ),
        (
            {"CM_NETWORK_LOADGEN": "sut", "CM_NETWORK_LOADGEN_SUT_ADDRESS": "a:1,b:2"},
            "a:1,b:2 is more than one address",
        ),
        (
            {"CM_NETWORK_LOADGEN": "sut", "CM_NETWORK_LOADGEN_SUT_ADDRESS": "localhost:x"},
            "localhost:x is not an address of a node",
        ),
        (
            {"CM_NETWORK_LOADGEN": "lon", "CM_NETWORK_LOADGEN_SUT_SERVERS": "a:1,["},
            r"\[ is not an address of a node",
        ),
        (
            {"CM_NETWORK_LOADGEN": "lon", "CM_NETWORK_LOADGEN_SUT_SERVERS": "a:1,a:1"},
            "a node is named twice",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(Error, match=message):
        taken(**given)
    if "CM_MLPERF_SUBMISSION_SYSTEM_TYPE" not in given:
        # Before anything is installed, and for a plan too.
        with pytest.raises(Error, match=message):
            customize.refuse({"env": env(**given)})


def test_an_open_node_needs_a_secret_that_is_one(tmp_path: Path) -> None:
    token = tmp_path / "token"
    open_to_all = {
        "CM_NETWORK_LOADGEN": "sut",
        "CM_NETWORK_LOADGEN_SUT_ADDRESS": "0.0.0.0:8089",
        "CM_NETWORK_LOADGEN_SUT_TOKEN_FILE": str(token),
    }
    token.write_text("\n", encoding="utf-8")
    with pytest.raises(Error, match="could use this node"):
        taken(**open_to_all)
    token.write_text("secret\n", encoding="utf-8")
    taken(**open_to_all)


def test_a_node_says_where_it_will_listen(capsys: pytest.CaptureFixture[str]) -> None:
    taken(CM_NETWORK_LOADGEN="sut")
    assert "node at 127.0.0.1:8089" in capsys.readouterr().out
