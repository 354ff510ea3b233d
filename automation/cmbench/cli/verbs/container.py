"""``cm docker script``: the run that ``cm run script`` would be, in a container."""

from __future__ import annotations

from cmbench.api import containers
from cmbench.cli.container_reply import container_answer
from cmbench.cli.reply import Command, Reply
from cmbench.container import options as options_in
from cmbench.format.meta import is_true
from cmbench.render.container import help_text, left, printed, summary


def docker_script(command: Command) -> Reply:
    """``cm docker script``: makes an image for the plan and runs the same command in it.

    ``--print`` shows what would be made and run, and does neither.
    """
    if command.flags.get("help"):
        if command.flags.get("tags") or command.names:
            containers.split(command)  # A script that is not there is an error here too.
        return _help()
    command.asks_for_container()
    own, request = containers.split(command)
    only_print = is_true(command.flags.get("print", False))
    made = containers.design_container(request, own, only_print)
    answer = container_answer(made)
    if only_print:
        return Reply(answer, lambda: printed(made))
    talks = command.console and not request.options.silent
    if talks:
        command.say(summary(made))
    lines = containers.run_container(
        request,
        made,
        attached=command.console,
        say=command.say if talks else None,
        build_output=print if talks and request.options.verbose else None,
    )
    last = left(made)
    return Reply({**answer, **({"output": lines} if lines else {})}, last or None)


def dockerfile_script(command: Command) -> Reply:
    """``cm dockerfile script``: the text of the file that ``cm docker script`` builds."""
    command.asks_for_container()
    own, request = containers.split(command)
    made = containers.design_container(request, own, True)
    return Reply(container_answer(made), made.text)


def _help() -> Reply:
    return Reply({"flags": dict(options_in.FLAGS)}, help_text)
