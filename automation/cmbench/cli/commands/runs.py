"""The commands about recorded runs."""

from __future__ import annotations

from cmbench.cli.verb import JSON, OUTPUT, Verb

VERBS: tuple[Verb, ...] = (
    Verb("runs", "help", "help:show_usage"),
    Verb(
        "runs",
        "show",
        "runs:show_runs",
        {
            "cm show runs": "the newest runs: id, time, state, command, result, folder",
            "cm show runs resnet50 failed": "those with these words in id, state or command",
        },
        {"limit=N": "look through this many, the newest ones; 20 by default", **JSON},
        takes=OUTPUT,
    ),
)
