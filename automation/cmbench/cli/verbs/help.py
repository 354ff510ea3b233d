"""``cm help script``, ``cm help cache``, and ``cm <verb> <thing> --help``."""

from __future__ import annotations

import sys
from importlib import metadata

from cmbench.cli.commands import usage_of, verb_of
from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.cli.results import script_help
from cmbench.cli.usage import usage_text
from cmbench.index.select import choose


def show_usage(command: Command) -> Reply:
    """Return the verbs; the flags of one, named or with ``--help``; the inputs of a script."""
    verb = command.help_of or _named_verb(command)
    if command.thing == "script" and not verb:
        tags, name = command.query()
        if name or tags.wanted:
            index = command.workspace.index
            return script_help(index.script(choose(index, tags, name).path), index)
    lines = [usage for usage, _ in usage_of(command.thing)]
    return Reply({"usage": lines}, lambda: usage_text(command.thing, verb))


def _named_verb(command: Command) -> str:
    """Return the verb of ``cm help results export``, if that is one."""
    word = command.names[0] if len(command.names) == 1 else ""
    return word if word and verb_of(command.thing, word) is not None else ""


def show_version(command: Command) -> Reply:
    """``cm version script``: the versions of cmbench, of the command ``cm`` and of Python."""
    import platform

    from cmbench.lib.installation import installed_version

    refuse_unknown(command.flags, ("json", "out", "quiet", "silent", "verbose", "debug", "help"))
    versions = {
        "cmbench": installed_version(),
        "cmind": f"{metadata.version('cmind')}, which brings the command cm",
        "Python": f"{platform.python_version()}, {sys.executable}",
    }
    text = "\n".join(f"{name} {version}" for name, version in versions.items())
    # Programs that ask cmind by this name read its own key.
    return Reply({**versions, "version": metadata.version("cmind")}, text, versions)
