"""``cm doctor script``."""

from __future__ import annotations

from dataclasses import asdict

from cmbench.cli.reply import Answer, Command, Reply, refuse_unknown
from cmbench.cli.results import request_of
from cmbench.doctor.checks import examine
from cmbench.doctor.finding import STOP, Finding, MachineProbe
from cmbench.errors import Error
from cmbench.render.doctor import doctor_text

_OF_FLOW = ("path", "vendor_round", "scratch_path")
"""Flags that tell of a vendor's flow."""


def doctor_script(command: Command) -> Reply:
    """``cm doctor script``: examine the machine; changes nothing, needs no privilege.

    With tags or the name of a script it looks at what that script and all below it need, with
    ``--for`` at what a vendor's flow stumbles over. Returns 1 when something is found that keeps
    everything from running.
    """
    findings = _examine(command, MachineProbe(command.workspace.root))
    data = [asdict(finding) for finding in findings]
    answer: Answer = {"findings": data}
    stops = [finding.text for finding in findings if finding.state == STOP]
    if stops:
        answer.update({"error": "; ".join(stops), "return": 1})
    return Reply(answer, lambda: doctor_text(findings), data)


def _examine(command: Command, machine: MachineProbe) -> list[Finding]:
    tags, name = command.query()
    if "for" in command.flags:
        return _for_vendor(command, machine)
    if tags.wanted or name:
        from cmbench.api.readiness import needs_of

        return needs_of(request_of(command), machine)
    known = ("json", "out", *_OF_FLOW)
    refuse_unknown(command.flags, known, "the doctor", "it takes --tags, --for and --json")
    alone = next((flag for flag in _OF_FLOW if flag in command.flags), "")
    if alone:
        hint = f"`cm doctor script --for=nvidia --{alone}=…`"
        raise Error(
            "needs-input", f"--{alone} is for a vendor's flow, but no vendor is named", hint=hint
        )
    return examine(machine)


def _for_vendor(command: Command, machine: MachineProbe) -> list[Finding]:
    """The checks of the registry; raises for a flag that goes with none, and for no vendor."""
    from cmbench.doctor.vendors import examine_for, subject_of

    flags = command.flags
    known = ("for", "json", "out", *_OF_FLOW)
    refuse_unknown(flags, known, "the doctor of a flow", f"it takes {', '.join(known)}")
    values = {"folder": flags.get("path"), "scratch": flags.get("scratch_path")}
    values["vendor_round"] = str(flags.get("vendor_round") or "")
    return examine_for(str(flags["for"]), machine, subject_of(values))
