"""``cm doctor script``."""

from __future__ import annotations

from dataclasses import asdict

from cmbench.cli.reply import Answer, Command, Reply, refuse_unknown
from cmbench.cli.results import request_of
from cmbench.doctor import STOP, Machine, examine
from cmbench.render.doctor import doctor_text


def doctor_script(command: Command) -> Reply:
    """``cm doctor script``: look at the machine; changes nothing, asks for no privilege.

    With tags or the name of a script it looks at what that script and all below it need. Returns 1
    when something is found that keeps everything from running.
    """
    tags, name = command.query()
    machine = Machine(command.workspace.root)
    if tags.wanted or name:
        from cmbench.api.readiness import needs_of

        found = needs_of(request_of(command), machine)
    else:
        refuse_unknown(command.flags, ("json", "out"), "the doctor", "it takes --tags and --json")
        found = examine(machine)
    data = [asdict(finding) for finding in found]
    answer: Answer = {"findings": data}
    stops = [finding.text for finding in found if finding.state == STOP]
    if stops:
        answer.update({"error": "; ".join(stops), "return": 1})
    return Reply(answer, lambda: doctor_text(found), data)
