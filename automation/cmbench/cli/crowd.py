"""The commands about results that are sent to others, which a package beside the engine answers."""

from __future__ import annotations

from cmbench.cli.verb import Flags, Verb


def _crowd(word: str, usage: Flags, flags: Flags) -> Verb:
    """A verb about results that are sent to others, which another package answers."""
    does = f"cmbench_crowd.verbs:{word}_crowd"
    return Verb("crowd", word, does, usage, {**flags, "json": "print the result as JSON"})


_SHARED = {
    "consent=N": "1 figures and hardware; 2 also versions of software; 3 also logs; it is kept",
    "without=NAMES": "fields that do not leave: system.cpu,files.accuracy-log",
    "work-unit=ID": "the unit of a server's work list that this result answers",
}
_WHERE = {
    "server=URL": "where to: https, or http on this machine",
    "token-file=FILE": "file with the token of the server",
}
_SENT = {
    **_WHERE,
    "yes": "send it without asking; what is sent is still shown",
}
CROWD: tuple[Verb, ...] = (
    Verb("crowd", "help", "help:show_usage"),
    _crowd(
        "show",
        {
            "cm show crowd last": "what would leave this machine, field by field; sends nothing",
            "cm show crowd": "what was sent, and what you have agreed to",
        },
        {**_SHARED, "raw": "the very bytes of the fields", "file=ROLE": "a log as it would leave"},
    ),
    _crowd(
        "plan",
        {"cm plan crowd --model=bert-99": "what measuring would do, download and take"},
        {
            "model=NAME": "the benchmark; by default resnet50",
            "scenario=NAME": "with --backend, --device, --precision, --category and"
            " --execution_mode: as of cm run script --tags=crowd,benchmark",
        },
    ),
    _crowd(
        "bundle",
        {"cm bundle crowd last --output=FILE": "the same as a file, to be sent from elsewhere"},
        {**_SHARED, "output=FILE": "where to", "yes": "ask nothing"},
    ),
    _crowd(
        "upload",
        {
            "cm upload crowd last --server=URL": "show it, ask, and send it on a yes",
            "cm upload crowd FILE --server=URL": "send a bundle from elsewhere",
        },
        {**_SHARED, **_SENT},
    ),
    _crowd(
        "withdraw",
        {"cm withdraw crowd ID|all": "let servers remove what was sent"},
        {"consent": "take back what you have agreed to"},
    ),
    _crowd(
        "lease",
        {"cm lease crowd --server=URL": "take work that a server wants done"},
        {**_WHERE, "list": "only show what is wanted"},
    ),
    _crowd("return", {"cm return crowd UNIT --server=URL": "give leased work back"}, {**_WHERE}),
)
