"""The commands about results that are sent to others, implemented in a separate package."""

from __future__ import annotations

from cmbench.cli.verb import Flags, Verb


def _crowd(word: str, usage: Flags, flags: Flags) -> Verb:
    """A verb about results that are sent to others, which another package answers."""
    does = f"cmbench_crowd.verbs:{word}_crowd"
    return Verb("crowd", word, does, usage, {**flags, "json": "print the result as JSON"})


_SHARED = {
    "consent=N": "1 figures and hardware; 2 also versions of software; 3 also logs; it is kept",
    "without=NAMES": "fields not to send: system.cpu,files.accuracy-log",
    "work-unit=ID": "the unit of a server's work list that this result answers",
}
_WHERE = {
    "server=URL": "where to: https, or http on this machine",
    "token-file=FILE": "file with the token of the server",
}
_SENT = {
    **_WHERE,
    "yes": "send it without asking; it is still shown",
}
VERBS: tuple[Verb, ...] = (
    Verb("crowd", "help", "help:show_usage"),
    _crowd(
        "show",
        {
            "cm show crowd last": "what would be sent, field by field; sends nothing",
            "cm show crowd": "what was sent, and what you have agreed to",
        },
        {
            **_SHARED,
            "raw": "the exact bytes of the fields",
            "file=ROLE": "a log as it would be sent",
        },
    ),
    _crowd(
        "plan",
        {"cm plan crowd --model=bert-99": "what measuring would do, download and need"},
        {
            "model=NAME": "the benchmark; by default resnet50",
            "scenario=NAME": "with --backend, --device, --precision, --category and"
            " --execution_mode: as of cm run script --tags=crowd,benchmark",
        },
    ),
    _crowd(
        "bundle",
        {"cm bundle crowd last --output=FILE": "the same as a file, to send from another machine"},
        {**_SHARED, "output=FILE": "output file", "yes": "do not ask"},
    ),
    _crowd(
        "upload",
        {
            "cm upload crowd last --server=URL": "show it, ask, and send it if you agree",
            "cm upload crowd FILE --server=URL": "send a bundle made on another machine",
        },
        {**_SHARED, **_SENT},
    ),
    _crowd(
        "withdraw",
        {"cm withdraw crowd ID|all": "ask servers to remove what was sent"},
        {"consent": "withdraw your consent"},
    ),
    _crowd(
        "lease",
        {"cm lease crowd --server=URL": "take work from a server's list"},
        {**_WHERE, "list": "only show what is wanted"},
    ),
    _crowd("return", {"cm return crowd UNIT --server=URL": "give leased work back"}, {**_WHERE}),
)
