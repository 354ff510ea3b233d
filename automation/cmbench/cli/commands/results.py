"""The commands about results of benchmarks, implemented in a separate package."""

from __future__ import annotations

from typing import Any

from cmbench.cli.verb import DATABASE, JSON, OUTPUT, Flags, Verb, gui_verb

_CHOSEN = {
    "accelerators=N": "results of systems with so many of them in a node",
    "benchmark=NAMES": "a column with its values: bert-99,resnet50; * and ! before a value work",
    "has=FIGURES": "those that have a figure: energy_per_sample, accuracy, ...",
    "sort=COLUMN": "sort by this, a figure the best first; a leading - reverses the order",
    "limit=N": "at most this many; with --offset=N the next ones",
}
_PRICES = {
    "price_per_hour=USD": "your own price of the machine, for the cost per million samples",
    "purchase_price=USD": "or its purchase price, with --lifetime_years and --price_per_kwh",
}


def _results(word: str, usage: Flags, flags: Flags, *takes: str, **more: Any) -> Verb:
    """A verb about results of benchmarks, which another package answers."""
    function = {"rm": "remove", "diff": "compare"}.get(word, word)
    does = f"cmbench_results.verbs:{function}_results"
    return Verb(
        "results", word, does, usage, {**flags, **DATABASE, **JSON, **flags}, takes or None, **more
    )


VERBS: tuple[Verb, ...] = (
    Verb("results", "help", "help:show_usage"),
    _results(
        "add",
        {"cm add results DIR": "keep the results of a run, a tree or a publication"},
        {"round=5.1": "for a tree whose files do not name its round"},
        "path",
        *OUTPUT,
    ),
    _results(
        "find",
        {
            "cm find results bert-99 Offline": "those that contain these words, the best first",
            "cm find results Azure --cost": "with the cost of a million samples",
            "cm find results --facets": "how many there are of each kind",
            "cm find results ... --frontier=X,Y": "those that no other one beats",
        },
        {
            **_CHOSEN,
            "facets=COLUMNS": "counts by these columns",
            "frontier=X,Y": "the Pareto frontier of two figures",
            "cost": "what a million samples cost, by the listed prices",
            **_PRICES,
        },
        cmind=("search",),
    ),
    _results(
        "show",
        {
            "cm show results ID": "all that is known of one; last is the newest of your own",
            "cm show results ID --history": "its configuration over time: is it faster or slower?",
            "cm show results": "the places that results were added from",
        },
        {
            "history": "the runs of its configuration by version, and whether it got faster",
            **_PRICES,
        },
        "lifetime_years",
        "price_per_kwh",
        "cost",
        *OUTPUT,
    ),
    _results(
        "compare",
        {"cm compare results ID ID": "which is faster, by how much, and what differs"},
        {},
        *OUTPUT,
    ),
    _results("diff", {"cm diff results ID ID": "the same as cm compare results"}, {}, *OUTPUT),
    _results(
        "export",
        {"cm export results bert-99 --csv": "all that match, as a file"},
        {
            "csv": "for a spreadsheet",
            "json": "for a program, with all settings",
            "parquet": "for DuckDB or pandas",
            "bundle": "with their logs, for cm add results elsewhere",
            "output=FILE": "output file; by default results.csv and so on",
            "force": "replace a file that exists",
            **_CHOSEN,
        },
    ),
    _results(
        "rm",
        {"cm rm results ID|DIR": "forget results; files on the disk stay"},
        {},
        "path",
        "force",
        *OUTPUT,
        cmind=("delete",),
    ),
    _results("reindex", {"cm reindex results": "rebuild the database from the files"}, {}, *OUTPUT),
    gui_verb("results", {"cm gui results": "explore results in a browser"}, {}),
    Verb(
        "results",
        "serve",
        "cmbench_crowd_server.verbs:serve_results",
        {"cm serve results": "receive results of volunteers, check them, show them"},
        {
            "port=N": "8502, or the next free one; 0 takes any",
            "address=HOST": "127.0.0.1 by default; another one needs --token-file",
            "token-file=FILE": "one token per line; uploads need one of them",
            "publish=checked": "show what passes all checks before a person has reviewed it",
            "proxied": "a TLS proxy on this machine tells the client's address",
            "title=TEXT": "title of the pages",
            "home=DIR": "where uploads are kept, instead of this CM home",
            **DATABASE,
        },
        OUTPUT,
        extra="crowd-server",
    ),
    Verb(
        "results",
        "review",
        "cmbench_crowd_server.verbs:review_results",
        {"cm review results [ID]": "what volunteers have sent, to be reviewed"},
        {
            "accept=IDS": "publish these",
            "reject=IDS": "do not, or no longer; --why=TEXT is stored",
            "why=TEXT": "the reason of --reject",
            "block=CONTRIBUTOR": "accept nothing more from a key",
            "want=FILE": "put work on the list: a JSON list of benchmark, scenario, ...",
            "home=DIR": "where the server keeps uploads, instead of this CM home",
            **DATABASE,
            **JSON,
        },
        OUTPUT,
        extra="crowd-server",
    ),
)
