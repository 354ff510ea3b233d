"""Replies about a container before it is made, which several verbs give."""

from __future__ import annotations

from cmbench.api import containers
from cmbench.cli.reply import Answer, Command, Reply
from cmbench.container import options as options_in
from cmbench.container.design import ContainerDesign
from cmbench.format.meta import is_true
from cmbench.lib.secrecy import mask_word
from cmbench.render.container import commands, printed, summary


def planned_container(command: Command) -> Reply:
    """Return the container of a planned run; take the flags of containers off the command."""
    views = {name: command.flags.pop(name) for name in _VIEWS if name in command.flags}
    whole = printed if is_true(command.flags.pop("print", False)) else summary
    own, request = containers.split(command)
    made = containers.design_container(request, own, True)
    command.flags = {**options_in.split_flags(command.flags, request.script.inputs)[1], **views}
    return Reply(container_answer(made), f"{_DIFFERS}\n\n{whole(made)}".rstrip())


_VIEWS = ("explain", "why", "dot", "mermaid", "json")
_DIFFERS = "In a container, which has programs of its own, and makes again what needs them:"


def container_answer(made: ContainerDesign) -> Answer:
    """Return a designed container as data, without its secrets."""
    job = made.job
    return {
        "engine": made.engine.name,
        "image": job.image,
        "containerfile": made.text,
        "file": job.file,
        "user": made.engine.user,
        "mounts": [
            {"source": m.source, "target": m.target, "mode": m.mode, "why": m.why}
            for m in job.mounts
        ],
        "handed": list(job.passed_variables),
        "command": [mask_word(word) for word in job.command],
        "commands": [list(map(mask_word, words)) for words in commands(made)],
        "notes": list(made.notes),
    }
