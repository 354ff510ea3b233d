"""How fast the database of results is with many of them.

usage: python benchmarks/results_store.py [--results 100000] [--clients 50] [--db URL] [--json]
                                          [--pages]

Makes results with the spread of published ones, then asks what a page asks: a table page by many
clients at once, counts by facet, a frontier. Times are wall times in ms, memory is that of the
process; beside them stand what SQLite needs for the bare table page. With ``--pages`` the same is
asked of the real server, by clients over HTTP that each go their own way through the table: times
are those of whole pages, memory and CPU time those of the server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from cmbench_results import query
from cmbench_results.query import Filter
from cmbench_results.result_sources import ResultSource, SourceFiles
from cmbench_results.sql import sa
from cmbench_results.store import Store
from cmbench_results.values import (
    ENERGY,
    HIGHER,
    LOWER,
    POWER,
    THROUGHPUT,
    BenchmarkResult,
    BenchmarkWorkload,
    ResultMetric,
    SystemDescription,
)

BENCHMARKS = ("resnet50", "bert-99", "bert-99.9", "rnnt", "llama2-70b-99", "3d-unet-99")
SCENARIOS = ("Offline", "Server", "SingleStream", "MultiStream")
FACETS = ("benchmark", "scenario", "round", "division", "organization")
KEY = b"k" * 32


def made(number: int, chance: random.Random) -> BenchmarkResult:
    """One result with random figures, a third of them with power."""
    speed = chance.lognormvariate(8, 2)
    metrics = [ResultMetric(THROUGHPUT, speed, "samples/s", HIGHER)]
    metrics.append(ResultMetric("latency_p99", 1e4 / speed, "ms", LOWER))
    if number % 3 == 0:
        watts = chance.uniform(50, 5000)
        metrics.append(ResultMetric(POWER, watts, "W", LOWER, "certified"))
        metrics.append(ResultMetric(ENERGY, watts / speed, "J", LOWER, "certified"))
    work = BenchmarkWorkload(
        chance.choice(BENCHMARKS),
        chance.choice(SCENARIOS),
        round=chance.choice(("4.0", "4.1", "5.0", "5.1")),
        division=chance.choice(("closed", "open")),
        category=chance.choice(("edge", "datacenter")),
    )
    name = f"system {chance.randrange(2000)}"
    return BenchmarkResult(
        key=f"made/{number}",
        workload=work,
        system=SystemDescription(
            name, cpu="a CPU", cores=64, accelerator="an accelerator", accelerators=8
        ),
        metric="throughput",
        value=speed,
        unit="samples/s",
        organization=f"organization {chance.randrange(80)}",
        validity="VALID",
        accuracy=chance.uniform(70, 99),
        metrics=tuple(metrics),
    )


def timed(work: Callable[[], object]) -> float:
    """Wall time of one call in ms."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def by_clients(work: Callable[[], object], clients: int, each: int = 4) -> list[float]:
    """Wall times in ms of calls that so many threads make at once."""
    times: list[float] = []

    def client() -> None:
        times.extend(timed(work) for _ in range(each))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times)


def measure(store: Store, clients: int) -> dict[str, float]:
    """Every figure by its name."""
    wanted = query.of_flags({"benchmark": "bert-99", "scenario": "Offline"})
    bare = "SELECT uid FROM run WHERE benchmark = 'bert-99' ORDER BY value DESC LIMIT 50"

    def table_page() -> object:
        return query.find(store, wanted, sort="-value", limit=50)

    def bare_page() -> object:
        with store.reading() as connection:
            return connection.execute(sa.text(bare)).all()

    def frontier() -> object:
        return query.frontier(query.points(store, wanted, THROUGHPUT, POWER), THROUGHPUT, POWER)

    pages = by_clients(table_page, clients)
    return {
        "table page, one client": statistics.median(timed(table_page) for _ in range(9)),
        f"table page, {clients} clients, p95": pages[int(0.95 * (len(pages) - 1))],
        "bare query, one client": statistics.median(timed(bare_page) for _ in range(9)),
        "facets": timed(lambda: query.facets(store, Filter(), FACETS)),
        "frontier": timed(frontier),
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def addresses(client: int) -> list[str]:
    """The way of one client: the first page, which all see, then what nobody else asks for."""
    work: dict[str, object] = {
        "benchmark": BENCHMARKS[client % len(BENCHMARKS)],
        "scenario": SCENARIOS[client % 4],
    }
    ways: list[dict[str, object]] = [
        {},
        work,
        {**work, "sort": "-value", "page": client + 1},
        {**work, "organization": f"organization {client}", "sort": "-throughput"},
        {"q": f"system {client}"},
        {"page": client + 2},
    ]
    return [f"/results?{urlencode(way)}" for way in ways]


READING_S = 1.0
"""So long does a reader look at a page."""
PLOT = "/results/plot?benchmark=bert-99&scenario=Offline&x=power&y=throughput&logx=1&logy=1&by="


def serve(home: str, port: int) -> None:
    """Be the server of a home."""
    from cmbench_gui.server import create_app, listening
    from cmbench_gui.server import serve as serve_pages
    from cmbench_gui.site import Site

    listener = listening("127.0.0.1", port)
    at = listener.getsockname()[1]
    print(at, flush=True)
    root = str(Path(__file__).parents[1])
    serve_pages(create_app(Site(home, KEY, (root,), port=at)), listener)


@contextmanager
def server(home: Path) -> Iterator[tuple[int, int]]:
    """The port and the process id of a server of that home."""
    words = [sys.executable, __file__, f"--serve={home}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def request_pages(port: int, ways: Sequence[str], times: list[float], pause: float = 0) -> None:
    """Get these pages one after the other by one connection, with so many seconds between them.

    Raises RuntimeError where one is no page.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/enter/{KEY.hex()}")
    answer = connection.getresponse()
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    answer.read()

    def get(way: str) -> None:
        connection.request("GET", way, headers={"cookie": cookie})
        found = connection.getresponse()
        if len(found.read()) < 1000 or found.status != 200:
            raise RuntimeError(f"{way}: {found.status}")

    for way in ways:
        time.sleep(pause * random.uniform(0.5, 1.5))
        times.append(timed(partial(get, way)))
    connection.close()


def cpu_of(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def by_readers(port: int, readers: Sequence[int], pause: float) -> list[float]:
    """What pages took, ascending, in ms, with a connection for each reader."""
    times: list[float] = []
    threads = [
        threading.Thread(target=request_pages, args=(port, addresses(reader), times, pause))
        for reader in readers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times)


def measure_pages(home: Path, clients: int) -> dict[str, float]:
    """The same questions as whole pages of the real server.

    Readers look at a page for a second before they go on; hurried ones ask for the next one at
    once, so that their times tell how many pages the server makes, not how long a reader waits.
    """
    with server(home) as (port, pid):
        first: list[float] = []
        request_pages(port, ["/results", "/results"], first)
        frontier: list[float] = []
        request_pages(port, [f"{PLOT}{by}" for by in ("organization", "system", "round")], frontier)
        # The server reads its columns meanwhile: what comes is of one that is up.
        time.sleep(4)
        read = by_readers(port, range(clients), READING_S)
        before, start = cpu_of(pid), time.perf_counter()
        hurried = by_readers(port, range(clients, 2 * clients), 0)
        seconds, used = time.perf_counter() - start, cpu_of(pid) - before
        again: list[float] = []
        request_pages(port, addresses(clients) + addresses(clients + 1), again)
        return {
            "first page after the start": first[0],
            "the same again": first[1],
            "frontier page": statistics.median(frontier),
            f"pages of {clients} readers, median": statistics.median(read),
            f"pages of {clients} readers, p95": read[int(0.95 * (len(read) - 1))],
            f"pages of {clients} in a hurry, median": statistics.median(hurried),
            f"pages of {clients} in a hurry, p95": hurried[int(0.95 * (len(hurried) - 1))],
            "pages in a second": len(hurried) / seconds,
            "CPU time of a page": used / len(hurried) * 1000,
            "pages made before, median": statistics.median(again),
            "memory of the server, MB": memory_of(pid),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--db", default="", help="a PostgreSQL that may be written to")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pages", action="store_true", help="ask the real server, by HTTP")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, 0)
        return
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as home:
        place = ResultSource("benchmark", "run", "/benchmark", "2026-01-01T00:00:00Z")
        with Store(SourceFiles(Path(home) / "cmbench"), given.db) as store:
            start = time.process_time()
            store.add(place, (made(number, chance) for number in range(given.results)))
            adding = (time.process_time() - start) / given.results * 1e6
            figures = {"adding, us of CPU each": adding}
            if given.pages:
                figures |= measure_pages(Path(home), given.clients)
            else:
                figures |= measure(store, given.clients)
            store.remove(place)
    load = os.getloadavg()[0]
    if given.json:
        print(json.dumps({"results": given.results, "load": load, **figures}))
        return
    print(f"{given.results:,} results, load {load:.1f}")
    for name, value in figures.items():
        print(f"  {name:<34} {value:>10.1f}")


if __name__ == "__main__":
    main()
