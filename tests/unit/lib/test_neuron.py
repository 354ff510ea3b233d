"""Neuron devices read from made-up trees, recorded tools, and a metadata service on loopback.

``ONE`` and ``LIST`` have the keys that AWS's page on neuron-ls shows, ``NEWER`` holds the same list
in an object.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cmbench.lib import neuron
from cmbench.lib.probe import NOT_STARTED, ProbeResult

ONE = {
    "neuron_device": 1,
    "bdf": "00:1c.0",
    "connected_to": [0],
    "nc_count": 4,
    "memory_size": 8589934592,
    "neuron_processes": [],
}
LIST = json.dumps([ONE, {**ONE, "neuron_device": 0, "bdf": "00:1b.0", "connected_to": [1]}])
NEWER = json.dumps({"instance_type": "inf1.6xlarge", "neuron_devices": json.loads(LIST)})
NO_DRIVER = "neuron-ls: no neuron device found. Is the driver loaded?\n"


def tree(root: Path, *, devices: int = 0, vendor: str = "", product: str = "") -> Path:
    texts = {f"{neuron.DMI}/sys_vendor": vendor, f"{neuron.DMI}/product_name": product}
    texts |= {f"dev/neuron{k}": "" for k in range(devices)}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def says(stdout: str, stderr: str = "", status: int = 0) -> Callable[..., ProbeResult]:
    return lambda command: ProbeResult(tuple(command), status, stdout, stderr, 0.1)


def nowhere(_: str) -> None:
    """A PATH without programs."""


def never(*_: Any) -> Any:
    raise AssertionError("nothing may be asked here")


TOOL = {neuron.TOOL: Path("/opt/neuron-ls")}.get


def test_nothing_is_asked_where_no_device_shows(tmp_path: Path) -> None:
    root = tree(tmp_path, vendor="Amazon EC2", product="c5.large")
    machine = neuron.read(root, nowhere, never, never)
    assert (machine.devices, machine.problem) == ((), "this machine has no Neuron device")


@pytest.mark.parametrize("text", [LIST, NEWER])
def test_the_tool_tells_devices_cores_and_memory(text: str, tmp_path: Path) -> None:
    root = tree(tmp_path, devices=2, vendor="Amazon EC2")
    machine = neuron.read(root, TOOL, says(text), lambda: "inf1.6xlarge")
    assert machine.devices == tuple(
        neuron.NeuronDevice(k, f"00:1{'bc'[k]}.0", 4, 8 << 30) for k in range(2)
    )
    assert (machine.cores, machine.target, machine.problem) == (8, "inf1", "")
    assert (machine.instance_type, machine.source) == ("inf1.6xlarge", "neuron-ls")


def test_without_the_tool_nodes_are_counted_and_cores_known_by_the_instance(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path, devices=12, vendor="Amazon EC2", product="trn1.32xlarge")
    (root / "dev" / "neuron_link").touch()
    machine = neuron.read(root, nowhere, never, lambda: "")
    assert [device.number for device in machine.devices] == list(range(12))
    assert (machine.cores, machine.target) == (24, "trn1")
    assert machine.instance_type == "trn1.32xlarge", "DMI has it where nobody answers"


def test_the_driver_tells_what_it_is_outside_of_ec2(tmp_path: Path) -> None:
    root = tree(tmp_path, devices=1)
    place = root / neuron.ARCHITECTURE
    place.parent.mkdir(parents=True)
    place.write_text("Inf2\n")
    machine = neuron.read(root, nowhere, never, never)
    assert (machine.target, machine.cores, machine.instance_type) == ("inf2", 2, "")


def test_cores_that_nobody_tells_are_not_guessed(tmp_path: Path) -> None:
    machine = neuron.read(tree(tmp_path, devices=1), nowhere, never, never)
    assert (machine.target, machine.cores, len(machine.devices)) == ("", 0, 1)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (says("", NO_DRIVER, 1), "Is the driver loaded"),
        (says("", "neuron-ls: not found", NOT_STARTED), "not found"),
        (says("[]"), "it lists no device"),
        (says("{}"), "it lists no device"),
        (says("neuron-ls 2.0"), "it lists no device"),
        (says('[{"neuron_device": "0"}]'), "it lists no device"),
    ],
)
def test_a_tool_that_fails_is_a_driver_that_does_not_work(
    answer: Any, word: str, tmp_path: Path
) -> None:
    machine = neuron.read(tree(tmp_path, devices=1), TOOL, answer, never)
    assert word in machine.problem
    assert "aws-neuronx-dkms" in machine.remedy
    assert len(machine.devices) == 1


# ---------------------------------------------------------------- the metadata service


class Service(http.server.BaseHTTPRequestHandler):
    """Tokens and a type of instance, as IMDSv2 gives them; how is told by its server."""

    def do_PUT(self) -> None:
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self.reply(200 if lifetime else 400, "a token")

    def do_GET(self) -> None:
        known = self.headers.get("X-aws-ec2-metadata-token") == "a token"
        self.reply(200 if known else 401, "inf1.2xlarge")

    def reply(self, status: int, text: str) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        how = self.server.how  # type: ignore[attr-defined]
        if how == "drips":
            # Until nobody listens any more.
            with suppress(OSError):
                for letter in b"HTTP/1.1 200 OK\r\n" + 100 * b"X: y\r\n":
                    self.wfile.write(bytes([letter]))
                    time.sleep(0.05)
            return
        text = {"page": "<html>", "binary": "\u00ff"}.get(how, text)
        self.send_response(403 if how == "refuses" else status)
        self.end_headers()
        self.wfile.write(text.encode("latin-1"))

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal of a test."""


@contextmanager
def service(how: str = "") -> Iterator[tuple[dict[str, str], list[str]]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    asked: list[str] = []
    server.how, server.asked = how, asked  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {neuron.ENDPOINT: f"http://127.0.0.1:{server.server_port}"}, asked
    finally:
        server.shutdown()
        server.server_close()


def test_the_type_is_asked_with_a_token() -> None:
    with service() as (environment, asked):
        assert neuron.ask_service(environment, 20) == "inf1.2xlarge"
        assert asked == ["/latest/api/token", "/latest/meta-data/instance-type"]
        assert neuron.ask_service({**environment, neuron.SWITCH: "true"}, 20) == ""
        assert len(asked) == 2


@pytest.mark.parametrize("how", ["refuses", "page", "binary"])
def test_an_answer_that_is_none_is_none(how: str) -> None:
    with service(how) as (environment, _):
        assert neuron.ask_service(environment, 20) == ""


def test_a_service_that_drips_is_left_behind() -> None:
    with service("drips") as (environment, _):
        assert neuron.ask_service(environment, 0.2) == ""


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "nonsense", "http://[", "file:///x"])
def test_an_endpoint_where_nobody_is_gives_nothing(endpoint: str) -> None:
    assert neuron.ask_service({neuron.ENDPOINT: endpoint}, 5) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"WARNING: driver 2.18 is older than this tool\n{LIST}",
        f"[warning] see [1]\n{NEWER}\nnote: done\n",
        f'{{"level": "warn"}}\n{json.dumps(json.loads(LIST), indent=2)}',
    ],
)
def test_warnings_around_the_list_are_no_fault(text: str, tmp_path: Path) -> None:
    found = neuron.read(tree(tmp_path, devices=2), TOOL, says(text), never)
    assert (found.problem, [device.number for device in found.devices]) == ("", [0, 1])


def test_a_tool_that_lists_devices_and_ends_with_an_error_has_seen_them(tmp_path: Path) -> None:
    answer = says(LIST, "neuron-ls: cannot read the processes of others", 1)
    machine = neuron.read(tree(tmp_path, devices=2), TOOL, answer, never)
    assert (machine.problem, len(machine.devices)) == ("", 2)


def test_who_holds_cores_is_told() -> None:
    holder = {"pid": 4711, "command": "python serve.py", "neuroncore_ids": [0, 1]}
    held = [{**ONE, "neuron_processes": [holder, {"pid": 12}, {"no": "pid"}, "text"]}]
    assert neuron.NeuronMachine(neuron.parse(json.dumps(held))).held == (
        "process 4711 (python serve.py) holds NeuronCores 0, 1 of /dev/neuron1",
        "process 12 holds cores of /dev/neuron1",
    )
    odd = neuron.parse(json.dumps([{**ONE, "neuron_processes": None}]))
    assert neuron.NeuronMachine(odd).held == ()
