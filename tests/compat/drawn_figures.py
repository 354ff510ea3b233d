"""Import published results, count them by round, and compare some with the published files.

usage: python tests/compat/drawn_figures.py CHECKOUT [NUMBER] [SEED]

CHECKOUT is a clone of mlcommons/cm4mlperf-results. NUMBER rows (20) are drawn at random from its
files, which this reads as they are, and looked for in the database by their address.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store

ALIKE = 1e-6


def published(checkout: Path) -> list[dict[str, Any]]:
    """The rows of all files with a figure and an address, each once, as they stand there."""
    found = {}
    for path in sorted(checkout.glob("experiment/*--all--*/*/cm-result.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            if isinstance(row.get("Result"), int | float) and row.get("url"):
                found[row["url"], row["Scenario"], row["MlperfModel"], row["Result"]] = row
    return list(found.values())


def imported(checkout: Path, home: Path) -> list[dict[str, Any]]:
    """What the database says of the checkout."""
    with Store(SourceFiles(home)) as store:
        place = store.places.add(checkout)
        store.add(place, store.places.results(place))
        with store.reading() as connection:
            rows = connection.exec_driver_sql("SELECT result FROM detail").scalars()
            found = [json.loads(row) for row in rows]
    print(f"imported: {len(found):,} results, {place.unread:,} rows could not be read:")
    for why, many in Counter(each.why for each in place.examples).most_common(5):
        print(f"  {why} ({many} of {len(place.examples)} that are named)")
    return found


def main() -> int:
    checkout = Path(sys.argv[1])
    number, seed = (int(word) for word in (*sys.argv[2:4], "20", "1")[:2])
    with tempfile.TemporaryDirectory() as home:
        found = imported(checkout, Path(home))
    by_round = Counter(each["workload"]["round"] for each in found)
    for name, many in sorted(by_round.items()):
        print(f"  v{name}: {many:,}")
    figures: dict[str, list[float]] = {}
    for each in found:
        if each.get("value") is not None:
            figures.setdefault(each.get("link", ""), []).append(each["value"])
    rows = published(checkout)
    print(f"published: {len(rows):,} rows; {number} of them, drawn with seed {seed}:")
    equal = 0
    for row in random.Random(seed).sample(rows, number):
        ours = figures.get(row["url"], [])
        same = any(abs(value - row["Result"]) <= ALIKE * abs(row["Result"]) for value in ours)
        equal += same
        words = f"{row['version']} {row['MlperfModel']} {row['Scenario']}, {row['Organization']}"
        print(f"  {'equal' if same else 'NOT  '} {row['Result']:>14g} {row['Units']:<10} {words}")
    print(f"{equal} of {number} figures are the published ones")
    return int(equal != number)


if __name__ == "__main__":
    sys.exit(main())
