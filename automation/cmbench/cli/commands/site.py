"""The commands about sites, at which runs and sweeps can be measured."""

from __future__ import annotations

from cmbench.cli.verb import JSON, OUTPUT, Verb

VERBS: tuple[Verb, ...] = (
    Verb("site", "help", "help:show_usage"),
    Verb(
        "site",
        "show",
        "cmbench_sweep.site_verbs:show_site",
        {
            "cm show site": "the sites that --site=NAME of a sweep can name",
            "cm show site NAME": "what its systems are; a file that is checked, too",
        },
        JSON,
        takes=OUTPUT,
    ),
)
