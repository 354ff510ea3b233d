"""The end of a run, and of a repeated one, as text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.api.running import FinishedRun
from cmbench.errors import visible
from cmbench.lib.text_files import counted


def end_text(ran: FinishedRun, answer: Mapping[str, Any]) -> str | None:
    """What a run has given and made; ``answer`` under ``--json``; ``None`` if nothing is wanted."""
    lines: list[str] = []
    if ran.request.flags.get("json"):
        lines.append(json.dumps(answer, indent=2, default=str))
    if not ran.request.options.silent:
        lines += _result_lines(ran)
        if ran.locked is not None:
            lines.append(_locked(str(ran.request.flags["lock"]), ran.locked))
    return ran.secrets.known("\n".join(lines)) if lines else None


def _result_lines(ran: FinishedRun) -> Iterator[str]:
    script, quiet = ran.request.script, ran.request.options.quiet
    shown = ran.secrets.data(ran.env)
    if script.host_facts:
        yield "\n".join(f"{key}={visible(str(value), lines=False)}" for key, value in shown.items())
        return
    if not quiet:
        for key, title in script.print_env_at_the_end.items():
            if shown.get(key, "") != "":
                yield f"{title}: {visible(str(shown[key]), lines=False)}"
    if not quiet or len(ran.steps) > 1:
        from cmbench.render.listing import closing_text

        yield closing_text(ran.steps, ran.record)


def _locked(path: str, data: Mapping[str, Any]) -> str:
    counts = [
        counted(len(data[name]), word)
        for name, word in (("scripts", "script"), ("versions", "version"), ("downloads", "file"))
        if data[name] or word != "file"
    ]
    return f"locked: {path} ({', '.join(counts)})"


def repeated_text(changed: Mapping[str, Any], run: str, path: str) -> str:
    """Return the figures of a repeated run, then and now, and which of its values differ."""
    from cmbench.render.diffs import figure_lines

    figures = changed.get("figures", {})
    lines = ["figures then -> now:", *figure_lines(figures)] if figures else []
    values = [
        f"{path_of_step.rpartition(' > ')[2]}: {name}"
        for path_of_step, step in changed.get("steps", {}).items()
        for name in step
        if name.startswith(("version", "gave ", "error"))
    ]
    if not values:
        lines.append(f"every step has the same versions and outputs as in {run}")
        return "\n".join(lines)
    count = counted(len(values), "value")
    last = os.path.basename(os.path.dirname(path))
    lines += [f"{count} differ from {run}; see them:", f"cm diff script {run} {last}"]
    return "\n".join(lines)
