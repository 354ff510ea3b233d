"""How fast the database of results is with many of them.

usage: python benchmarks/results_store.py [--results 100000] [--clients 50] [--db URL] [--json]

Makes results with the spread of published ones, then asks what a page asks: a table page by many
clients at once, counts by facet, a frontier. Times are wall times in ms, memory is that of the
process; beside them stand what SQLite needs for the bare table page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cmbench_results import query
from cmbench_results.places import Place, Places
from cmbench_results.query import Filter
from cmbench_results.sql import sa
from cmbench_results.store import Store
from cmbench_results.values import (
    ENERGY,
    HIGHER,
    LOWER,
    POWER,
    THROUGHPUT,
    Metric,
    Result,
    System,
    Workload,
)

BENCHMARKS = ("resnet50", "bert-99", "bert-99.9", "retinanet", "llama2-70b-99", "3d-unet-99")
SCENARIOS = ("Offline", "Server", "SingleStream", "MultiStream")
FACETS = ("benchmark", "scenario", "round", "division", "organization")


def made(number: int, chance: random.Random) -> Result:
    """One result with random figures, a third of them with power."""
    speed = chance.lognormvariate(8, 2)
    metrics = [Metric(THROUGHPUT, speed, "samples/s", HIGHER)]
    metrics.append(Metric("latency_p99", 1e4 / speed, "ms", LOWER))
    if number % 3 == 0:
        watts = chance.uniform(50, 5000)
        metrics.append(Metric(POWER, watts, "W", LOWER, "certified"))
        metrics.append(Metric(ENERGY, watts / speed, "J", LOWER, "certified"))
    work = Workload(
        chance.choice(BENCHMARKS),
        chance.choice(SCENARIOS),
        round=chance.choice(("4.0", "4.1", "5.0", "5.1")),
        division=chance.choice(("closed", "open")),
        category=chance.choice(("edge", "datacenter")),
    )
    name = f"system {chance.randrange(2000)}"
    return Result(
        key=f"made/{number}",
        workload=work,
        system=System(name, cpu="a CPU", cores=64, accelerator="an accelerator", accelerators=8),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--db", default="", help="a PostgreSQL that may be written to")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as home:
        place = Place("benchmark", "run", "/benchmark", "2026-01-01T00:00:00Z")
        with Store(Places(Path(home)), given.db) as store:
            start = time.process_time()
            store.add(place, (made(number, chance) for number in range(given.results)))
            adding = (time.process_time() - start) / given.results * 1e6
            figures = {"adding, us of CPU each": adding, **measure(store, given.clients)}
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
