"""LoadGen here and the model elsewhere: the frames, the nodes, whole runs, and hostile peers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_forms as forms
import benchmark_lab as lab
import network_lab
import submission_lab
from mlperf.harness import entrance, records
from mlperf.harness.backends import network, wire
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.wire import SampleGroup, WireError, WireFrame
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.measuring import detail_log
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.reporting.results import Results
from mlperf.harness.session import node as nodes
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, SessionSettings, TensorSpec, WorkerShape
from support import HANG_S, Home

from mlperf.submission import checks, commands, official, system  # isort: skip

INPUTS = (TensorSpec("ids", "int64", (-1,)), TensorSpec("image", "float32", (3, 2)))
ONE = WorkerShape(1, 1, 1)


# ---------------------------------------------------------------- frames


def sent(head: dict[str, Any], parts: list[Any]) -> WireFrame:
    """A frame that went through a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = threading.Thread(target=wire.send, args=(ours, head, parts), daemon=True)
        thread.start()
        found = wire.receive(theirs)
        thread.join(HANG_S)
    assert found is not None
    return found


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=5))
def test_samples_come_as_they_were_sent(sizes: list[tuple[int, int]]) -> None:
    random = np.random.default_rng(0)
    groups = [
        SampleGroup(
            count,
            {
                "ids": random.integers(0, 99, (count, width)),
                "image": random.random((count, 3, 2), np.float32),
            },
        )
        for count, width in sizes
    ]
    told, parts = wire.packed(groups, INPUTS)
    found = wire.unpacked(sent({"kind": "samples", "groups": told}, parts), INPUTS, 64)
    assert [each.count for each in found] == [each.count for each in groups]
    for mine, theirs in zip(groups, found, strict=True):
        for name, array in mine.tensors.items():
            np.testing.assert_array_equal(array, theirs.tensors[name])


GOOD = {"ids": [2], "image": [3, 2]}
BYTES = bytes(2 * 8 + 6 * 4)


@pytest.mark.parametrize(
    ("groups", "body", "message"),
    [
        ("no list", BYTES, "1 to 64 groups"),
        ([], BYTES, "1 to 64 groups"),
        ([[1, GOOD]] * 65, BYTES, "1 to 64 groups"),
        ([[1]], BYTES, "a number of samples and"),
        ([[0, GOOD]], BYTES, "a group of 0"),
        ([[True, GOOD]], BYTES, "a group of True"),
        ([[10**30, GOOD]], BYTES, "needs more"),
        ([[1, {"ids": [2]}]], BYTES, "sizes of image are missing"),
        ([[1, {"ids": [-1], "image": [3, 2]}]], BYTES, "sizes of ids are missing"),
        ([[1, {"ids": [2**62], "image": [3, 2]}]], BYTES, "needs more"),
        ([[1, {"ids": [2, 2], "image": [3, 2]}]], BYTES, r"a sample has \[-1\]"),
        ([[1, {"ids": [2], "image": [2, 3]}]], BYTES, r"a sample has \[3, 2\]"),
        ([[1, GOOD]], BYTES + b"x", "41 bytes came, the samples have 40"),
        ([[1, GOOD]], BYTES[:-1], "image needs more"),
        ([[40, {"ids": [1], "image": [3, 2]}]] * 2, bytes(80 * 32), "more than 64 samples"),
    ],
)
def test_samples_that_the_model_does_not_take(groups: object, body: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        wire.unpacked(WireFrame({"groups": groups}, memoryview(body)), INPUTS, 64)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20), st.binary())
def test_no_frame_breaks_the_reader(groups: object, body: bytes) -> None:
    with pytest.raises(WireError):
        wire.unpacked(WireFrame({"groups": groups}, memoryview(body)), INPUTS, 64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak"),
        (wire.PREFIX.pack(b"CMB1", 1 << 21, 0), "too large"),
        (wire.PREFIX.pack(b"CMB1", 2, 1 << 60), "too large"),
        (wire.PREFIX.pack(b"CMB1", 3, 0) + b"[1]", "not a JSON object"),
        (wire.PREFIX.pack(b"CMB1", 2, 0) + b"{{", "not JSON"),
        (wire.PREFIX.pack(b"CMB1", 100_000, 0) + b"[" * 100_000, "not JSON"),
        (wire.PREFIX.pack(b"CMB1", 10, 0) + b"{}", "in the middle"),
        (b"CMB", "in the middle"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, message: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(WireError, match=message):
            wire.receive(theirs)


# ---------------------------------------------------------------- addresses, tokens, names


def test_addresses_are_read_as_people_write_them() -> None:
    found = entrance.addresses(" http://a:8000/, b ,[::1]:7,10.0.0.1:1")
    assert found == [("a", 8000), ("b", 8089), ("::1", 7), ("10.0.0.1", 1)]
    for text, message in (
        ("", "no node is named"),
        ("a:0", "not an address"),
        ("a:x", "not an address"),
        (":5", "not an address"),
        ("[]", "not an address"),
        ("[]:5", "not an address"),
        ("a,a:8089", "named twice"),
    ):
        with pytest.raises(HarnessError, match=message):
            entrance.addresses(text)


def test_a_token_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="token cannot be read"):
        entrance.read_token(str(tmp_path / "no"))
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    assert entrance.read_token(str(tmp_path / "token")) == "secret"


def test_a_node_for_everybody_needs_a_token(tmp_path: Path) -> None:
    session = records.decode(SessionSettings, lab.settings(tmp_path))
    with pytest.raises(HarnessError, match=r"everybody who reaches 0\.0\.0\.0:8089") as caught:
        nodes._serve(nodes.NodeSettings(session, "0.0.0.0:8089"))
    assert "--sut_token_file" in caught.value.hint


def test_nobody_at_the_address_is_told() -> None:
    with pytest.raises(HarnessError, match=r"no node answers at 127.0.0.1:9") as caught:
        backends.create("network", "cpu", "float32", {"servers": "127.0.0.1:9"})
    assert "--network=sut" in caught.value.hint


@pytest.mark.parametrize(
    "sizes",
    [None, [8], [8, 8, 8], [8, 9], [8, -1], [8, 2**70], [8, 0.5], [8, True], [[8], [8]], "88", {}],
)
def test_sizes_that_a_node_cannot_mean_are_refused(sizes: object) -> None:
    """LoadGen reads so many bytes of a row: one more would be another's memory."""
    node = network.NodeDescription(
        ("a", 1), {"name": "a"}, {}, {}, INPUTS, ("float32", (2,), True), 64
    )
    samples = [
        SampleGroup(2, {"ids": np.ones((2, 1), np.int64), "image": np.ones((2, 3, 2), "f4")})
    ]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        head = {"kind": "results"} if sizes is None else {"kind": "results", "sizes": sizes}
        wire.send(theirs, head, [np.ones(16, np.uint8)])
        results, told = np.zeros((2, 2), np.float32), np.zeros(2, np.int64)
        with pytest.raises(HarnessError, match="node a:1: told sizes that its results cannot have"):
            network.NetworkPredictor(ours, node).answer(samples, results, told)
        assert not told.any()
        predictor = network.NetworkPredictor(ours, node)
        for sizes, count in (([0, 4], 5), ([8, 0], 16)):
            wire.send(theirs, {"kind": "results", "sizes": sizes}, [np.ones(count, np.uint8)])
            with pytest.raises(HarnessError, match=f"answered {count} bytes for 2 samples, not"):
                predictor.answer(samples, results, told)
        assert not told.any()
        # Only what counts comes over the wire.
        wire.send(theirs, {"kind": "results", "sizes": [0, 4]}, [np.float32([7])])
        predictor.answer(samples, results, told)
        assert told.tolist() == [0, 4]
        assert results[1, 0] == 7


# ---------------------------------------------------------------- real nodes


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of two nodes with the tiny ResNet-50."""
    folder = tmp_path_factory.mktemp("nodes")
    with network_lab.node(folder / "a") as (first, _), network_lab.node(folder / "b") as (other, _):
        yield f"{first},{other}"


def answers(backend: Any, name: str, data: Path, model: ModelSpec, count: int) -> list[bytes]:
    """The answers to the first samples, one by one."""
    benchmark = benchmarks.create(name, data, model)
    (solver,) = solvers(backend, model, benchmark, ONE)
    return forms.first(benchmark, solver, count)


def test_the_first_answers_are_those_in_process_bit_by_bit(two: str) -> None:
    model = records.decode(ModelSpec, lab.model())
    alone = backends.create("onnxruntime", "cpu", "float32")
    over = backends.create("network", "cpu", "float32", {"servers": two})
    found = [answers(each, "resnet50", lab.arrays(), model, 100) for each in (alone, over)]
    assert found[0] == found[1]
    assert over.device_facts()["nodes"] == "2"
    assert over.versions()["onnxruntime"] == alone.versions()["onnxruntime"]


@pytest.mark.parametrize("name", forms.TINY)
def test_every_benchmark_is_answered_as_in_process(name: str, tmp_path: Path) -> None:
    folder, data, count = forms.TINY[name]
    told = forms.model(lab.SCRIPT / folder)
    session = {"benchmark": name, "model": told, "dataset": str(data())}
    session["overrides"] = {"num_workers": 1, "threads": 1, "batch_size": 1}
    model = records.decode(ModelSpec, told)
    with network_lab.node(tmp_path / "a", session) as (address, _):
        over = backends.create("network", "cpu", "float32", {"servers": address})
        alone = backends.create("onnxruntime", "cpu", "float32")
        found = [answers(each, name, data(), model, count) for each in (alone, over)]
    assert found[0] == found[1]


def test_questions_are_sent_unfilled_and_joined_by_the_node(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"
    told, data = forms.model(folder), forms.features()
    model = records.decode(ModelSpec, told)
    session = {"benchmark": "bert-99", "model": told, "dataset": str(data)}
    session["overrides"] = {"num_workers": 1, "threads": 1, "batch_size": 4}
    with network_lab.node(tmp_path / "a", session) as (address, _):
        over = backends.create("network", "cpu", "float32", {"servers": address})
        benchmark = benchmarks.create("bert-99", data, model)
        (solver,) = solvers(over, model, benchmark, WorkerShape(1, 1, 16))
        benchmark.load(list(range(16)))
        lengths = {group.tensors["input_ids"].shape[1] for group in solver.groups(range(16))}
        assert len(lengths) > 1
        results, sizes = benchmark.result.rows(16), np.zeros(16, np.int64)
        solver.solve(range(16), results, sizes)
    alone = backends.create("onnxruntime", "cpu", "float32")
    for number, one in enumerate(answers(alone, "bert-99", data, model, 16)):
        width = int(benchmark.store.lengths[number])
        wanted = np.frombuffer(one, np.float32).reshape(results.shape[1:])[:width]
        np.testing.assert_allclose(results[number][:width], wanted, atol=1e-4)


def lon_settings(folder: Path, servers: str, **changes: Any) -> dict[str, Any]:
    """Short runs of both scenarios of the division."""
    return lab.settings(
        folder,
        backend="network",
        backend_options={"servers": servers, "backend": "onnxruntime"},
        division="network",
        category="datacenter",
        round="5.0",
        scenarios=["Server", "Offline"],
        overrides={"threads": None, "num_workers": 4, "batch_size": 8},
        **changes,
    )


@pytest.fixture(scope="module")
def measured(two: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Both scenarios in both modes over two nodes."""
    folder = tmp_path_factory.mktemp("lon")
    config, answer = folder / "session.json", folder / "answer.json"
    asked = lon_settings(folder / "results", two, attempts=10, answer=str(answer))
    records.write(config, {**asked, "round": lab.settings(folder)["round"]})
    lab.run(lab.relaxed_session(config), env=lab.harness_environment()).ok()
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


def test_both_scenarios_of_the_division_are_valid_and_as_right(measured: dict[str, Any]) -> None:
    assert measured["problems"] == []
    assert [each["scenario"] for each in measured["results"]] == ["Server", "Offline"]
    for each in measured["results"]:
        run = Path(measured["folder"]) / each["scenario"].lower() / "performance" / "run_1"
        log = detail_log.read(run / "mlperf_log_detail.txt")
        assert log.validity == "VALID"
        name = log.values["sut_name"]
        assert name.startswith("Network SUT: a-")
        assert " + b-" in name
        assert each["accuracy_run"]["value"] == pytest.approx(99.07, abs=0.01)
    assert measured["calibration"]["server"]["shape"]["batch"] == 1
    assert measured["device_facts"]["backend"] == "onnxruntime"
    text = (Path(measured["folder"]) / "summary.txt").read_text(encoding="utf-8")
    assert "over the network on 2 nodes on cpu" in text


def described(measured: dict[str, Any]) -> tuple[dict[str, str], str]:
    """The description of the system that was measured, and the name that LoadGen has logged."""
    results = records.decode(Results, measured)
    log = next(Path(measured["folder"]).glob("offline/performance/run_1/*_detail.txt"))
    told = system.describe(system.of_results(results), {}, {}, "").document()
    return told, str(detail_log.read(log).values["sut_name"])


def test_the_system_is_described_by_its_nodes(measured: dict[str, Any]) -> None:
    told, _ = described(measured)
    assert told["is_network"] == "true"
    assert told["number_of_nodes"] == "2"
    assert told["number_connections"] == "4"
    assert told["framework"].endswith("over the network on 2 nodes")
    assert told["host_processor_model_name"] == measured["host"]["cpu_model"]
    results = records.decode(Results, measured)
    typed = commands.complete("`cm run script --tags=run-mlperf,inference`", results, "Offline")
    assert "--backend=onnxruntime --network=lon --sut_servers=127.0.0.1:" in typed
    assert "--division" not in typed


def test_a_tree_of_the_network_division_is_accepted(
    measured: dict[str, Any], tmp_path: Path
) -> None:
    """Runs of the rules' length are written by hand; name and description are the real ones.

    With MLPERF_INFERENCE, a checkout of mlcommons/inference, the official checkers judge it too.
    """
    judge(measured, "resnet", tmp_path)


def test_a_tree_of_texts_that_are_written_over_the_network_is_accepted(tmp_path: Path) -> None:
    folder, data, _ = forms.TINY["gptj-99"]
    session = {"benchmark": "gptj-99", "model": forms.model(lab.SCRIPT / folder)}
    session |= {"dataset": str(data()), "hw_name": "writer"}
    with network_lab.node(tmp_path / "a", session) as (address, _):
        config, answer = tmp_path / "session.json", tmp_path / "answer.json"
        asked = {**lon_settings(tmp_path / "results", address, answer=str(answer)), **session}
        asked |= {"scenarios": ["Offline"], "modes": ["performance"]}
        records.write(config, {**asked, "round": lab.settings(tmp_path)["round"]})
        lab.run(lab.relaxed_session(config), env=lab.harness_environment()).ok()
    found = json.loads(answer.read_text(encoding="utf-8"))
    assert found["problems"] == []
    assert [each["scenario"] for each in found["results"]] == ["Offline"]
    judge(found, "gptj-99", tmp_path)


def judge(measured: dict[str, Any], benchmark: str, folder: Path) -> None:
    """Refuse a tree in which the system is the measured one, where our checks or others would."""
    told, name = described(measured)
    both = ("Server", "Offline")
    example = submission_lab.Example("5.0", "network", (benchmark,), both, "datacenter")
    tree = submission_lab.make(folder / "tree", example)
    for log in tree.root.rglob("mlperf_log_*.txt"):
        text = log.read_text(encoding="utf-8").replace('"Network SUT"', json.dumps(name))
        log.write_text(text.replace(": Network SUT\n", f": {name}\n"), encoding="utf-8")
    (place,) = tree.root.rglob("systems/*.json")
    kept = json.loads(place.read_text(encoding="utf-8"))
    mine = ("submitter", "division", "system_type", "host_processors_per_node")
    more = {key: kept[key] for key in (*mine, "host_processor_core_count")}
    place.write_text(json.dumps({**told, **more}), encoding="utf-8")
    assert [each for each in checks.check(tree) if each.rule != "system.unanswered"] == []
    if source := os.environ.get("MLPERF_INFERENCE"):
        for outcome in official.run(sys.executable, Path(source), tree.root, "5.0", folder):
            assert outcome.accepted, outcome.complaints


def test_a_hostile_peer_gets_an_error_and_the_node_goes_on(two: str) -> None:
    (place, _) = entrance.addresses(two)
    attacks = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(4096),
        wire.PREFIX.pack(b"CMB1", 1 << 31, 0),
        wire.PREFIX.pack(b"CMB1", 2, 1 << 40) + b"{}",
        wire.PREFIX.pack(b"CMB1", 2, 0) + b"{}",
        wire.PREFIX.pack(b"CMB1", 2, 10) + b"{}" + b"0123456789",
    ]
    for attack in attacks:
        with socket.create_connection(place, 10) as connection:
            connection.settimeout(30)
            connection.sendall(attack)
            # With bytes that nobody read, the system may drop the answer.
            with contextlib.suppress(WireError):
                answer = wire.receive(connection)
                assert answer is None or answer.kind == "error"
    backend = backends.create("network", "cpu", "float32", {"servers": two})
    with pytest.raises(HarnessError, match="1 to 64 groups"):
        wire.ask(backend._control[0], {"kind": "samples", "groups": []})  # type: ignore[attr-defined]
    _alone(backend, "network", "cpu", "float32", {"servers": two})


def test_a_second_program_and_a_wrong_token_are_refused(tmp_path: Path) -> None:
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_text("one", encoding="utf-8")
    other.write_text("two", encoding="utf-8")
    with network_lab.node(tmp_path / "a", token_file=str(token)) as (address, _):
        options = {"servers": address, "token_file": str(other)}
        with pytest.raises(HarnessError, match="token is not this node's"):
            backends.create("network", "cpu", "float32", options)
        with pytest.raises(HarnessError, match="token is not this node's"):
            backends.create("network", "cpu", "float32", {"servers": address})
        options["token_file"] = str(token)
        first = backends.create("network", "cpu", "float32", options)
        with pytest.raises(HarnessError, match="another client is measuring"):
            backends.create("network", "cpu", "float32", options)
        with pytest.raises(HarnessError, match="precision float32, not int8"):
            _alone(first, "network", "cpu", "int8", options)
        wrong = {**options, "backend": "openvino"}
        with pytest.raises(HarnessError, match="backend onnxruntime, not openvino"):
            _alone(None, "network", "cpu", "float32", wrong)


def _alone(before: Any, *asked: Any) -> None:
    """A backend once the node has noticed that nobody else is there."""
    if before is not None:
        for connection in before._control:
            connection.close()
    end = time.monotonic() + HANG_S
    while True:
        with contextlib.suppress(BusyError):
            return _created(*asked)
        assert time.monotonic() < end
        time.sleep(0.05)


class BusyError(Exception):
    """The node is still somebody else's."""


def _created(*asked: Any) -> None:
    try:
        backends.create(*asked)
    except HarnessError as error:
        if "another client" in str(error):
            raise BusyError from error
        raise


def test_a_node_with_another_data_set_is_refused_before_it_is_measured(two: str) -> None:
    over = backends.create("network", "cpu", "float32", {"servers": two})
    model = records.decode(ModelSpec, lab.model())
    other = benchmarks.create("resnet50", lab.arrays("train"), model)
    with pytest.raises(
        HarnessError, match=rf"knows \d+ samples, and {other.sample_count} are here"
    ):
        solvers(over, model, other, ONE)


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    with (
        network_lab.node(tmp_path / "a", name="box") as (first, _),
        network_lab.node(tmp_path / "b", name="box") as (other, _),
        pytest.raises(HarnessError, match="one name: box, box"),
    ):
        backends.create("network", "cpu", "float32", {"servers": f"{first},{other}"})


def test_a_node_that_is_killed_ends_the_run_with_its_address(tmp_path: Path) -> None:
    with network_lab.node(tmp_path / "a") as (address, process):
        asked = lon_settings(tmp_path / "results", address, modes=["performance"])
        asked |= {"scenarios": ["Offline"], "round": lab.settings(tmp_path)["round"]}
        asked["overrides"]["min_duration"] = 60_000
        killer = threading.Thread(target=_kill_when_busy, args=(tmp_path, process.pid), daemon=True)
        killer.start()
        session = sessions.MeasurementSession(records.decode(SessionSettings, asked))
        with pytest.raises(HarnessError, match=f"node {address}: ") as caught:
            session.run()
        killer.join(HANG_S)
    assert "Traceback" not in str(caught.value)
    assert not list((tmp_path / "results").glob("*/*/*/offline/performance"))


def _kill_when_busy(folder: Path, pid: int) -> None:
    from support import wait_for

    def measures() -> bool:
        with contextlib.suppress(FileNotFoundError):  # a folder that has just been removed
            return any((folder / "results").rglob("live.json"))
        return False

    wait_for(measures)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not network_lab.network_namespace(), reason="only root can make a namespace")
def test_a_node_in_another_network_namespace(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    port = network_lab.free_port()
    with (
        network_lab.namespace() as (before, inside),
        network_lab.node(
            tmp_path / "far", before=before, token_file=str(token), address=f"{inside}:{port}"
        ) as (address, _),
    ):
        assert address == f"{inside}:{port}"
        options = {"servers": address, "token_file": str(token)}
        over = backends.create("network", "cpu", "float32", options)
        model = records.decode(ModelSpec, lab.model())
        assert len(answers(over, "resnet50", lab.arrays(), model, 3)) == 3
        with pytest.raises(OSError, match=r"refused"):
            socket.create_connection(("127.0.0.1", port), 1)


@pytest.mark.parametrize("backend", ["onnxruntime", "triton"])
def test_loadgens_machine_installs_nothing_of_a_backend(home: Home, backend: str) -> None:
    words = ("plan", "script", "--tags=run-mlperf,inference,_tiny", f"--backend={backend}")
    asks = home.cm(*words, "--network=lon", "--sut_servers=a:1").ok().stdout
    serves = home.cm(*words, "--network=sut").ok().stdout
    for package in ("Python package onnxruntime", "get-triton-server")[: 1 + (backend == "triton")]:
        assert package in serves
        assert package not in asks
    assert "mlcommons-loadgen" in asks
