"""``cm doctor script``."""

from __future__ import annotations

from dataclasses import asdict

from cmbench.cli.reply import Answer, Command, Reply, refuse_unknown
from cmbench.doctor import STOP, Machine, examine
from cmbench.render.doctor import doctor_text


def doctor_script(command: Command) -> Reply:
    """``cm doctor script``: look at the machine; changes nothing, asks for no privilege.

    Returns 1 when something is found that keeps everything from running.
    """
    refuse_unknown(command.flags, ("json", "out"), "the doctor", "it takes --json")
    found = examine(Machine(command.workspace.root))
    data = [asdict(finding) for finding in found]
    answer: Answer = {"findings": data}
    stops = [finding.text for finding in found if finding.state == STOP]
    if stops:
        answer.update({"error": "; ".join(stops), "return": 1})
    return Reply(answer, lambda: doctor_text(found), data)
