"""``cm replay script`` and ``cm diff script``."""

from __future__ import annotations

from cmbench.api import repeating
from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.cli.results import answer_of, warn
from cmbench.errors import Error
from cmbench.render.diffs import difference_text, replay_text
from cmbench.render.progress import screen
from cmbench.render.runs import end_text, repeated_text


def diff_script(command: Command) -> Reply:
    """``cm diff script <record> <record>``: what differs between two runs; raises ``bad-value``."""
    refuse_unknown(command.flags, ("json", "out"), "diff", "")
    if len(command.names) != 2:
        raise Error(
            "bad-value",
            f"two records are compared; given: {len(command.names)}",
            hint="name two: `cm diff script last~1 last` (`cm show runs` lists them)",
        )
    comparison = repeating.diff(command.workspace, *command.names)
    text = difference_text(comparison.differences, comparison.one, comparison.other)
    return Reply({"differences": comparison.differences}, text, comparison.differences)


def replay_script(command: Command) -> Reply:
    """``cm replay script <record>``: repeat a recorded run; more flags change it.

    Raises ``bad-value`` unless one is named.
    """
    if len(command.names) != 1:
        raise Error(
            "bad-value",
            "it is not clear which run to repeat",
            hint="name its record, or its id: `cm replay script last`",
        )
    flags, out = command.flags, command.options.out
    recalled = repeating.recall(command.workspace, command.names[0], flags, out)
    old, silent = recalled.record, command.options.silent
    if not silent:
        command.say(replay_text(old, recalled.obstacles) + "\n")
    request = recalled.request()
    warn(command, request.warnings)
    show = screen(command.console, request.options)
    replayed = repeating.replay(recalled, request, on_event=show)
    answer = answer_of(replayed.ran)

    def text() -> str | None:
        lines = [end_text(replayed.ran, {"return": 0, **answer}) or ""]
        if not silent:
            lines.append(repeated_text(replayed.differences, old["run"], replayed.ran.record))
        return "\n".join(line for line in lines if line) or None

    more = {"not_as_it_was": list(replayed.obstacles), "differences": replayed.differences}
    return Reply({**answer, **more}, text)
