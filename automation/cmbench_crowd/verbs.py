"""The verbs of ``cm … crowd``: parse, query, render."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.errors import Error, visible
from cmbench_crowd import bundle, contribute
from cmbench_crowd import manifest as m
from cmbench_crowd.client_home import ClientHome, publish
from cmbench_crowd.contribute import UploadOptions
from cmbench_crowd.drafts import Draft
from cmbench_crowd.http_client import CrowdClient
from common.text import wrapped

_WISH = ("consent", "without", "work_unit", "yes", "y")
_MEASURED = ("model", "scenario", "backend", "device", "precision", "category", "execution_mode")
_COMMON = ("json", "out", "quiet", "silent", "verbose", "debug", "help")


def show_crowd(command: Command) -> Reply:
    """``cm show crowd RESULT``: what would leave; without a result, what was sent.

    Raises what ``contribute.drafted`` does, and ``bad-value``.
    """
    refuse_unknown(command.flags, (*_WISH, *_COMMON, "raw", "file"))
    client = ClientHome(command.workspace.root)
    if not command.names:
        return _state(client)
    word = command.names[0]
    if _is_file(word):
        parcel = bundle.read(Path(word))
        draft = Draft(parcel.manifest, parcel.files)
    else:
        wish = replace(_wish(command), look=True)
        draft, _ = contribute.drafted(command.workspace.root, word, wish)
    data = m.encode(draft.manifest)
    if command.flags.get("raw"):
        return Reply({}, data.decode(), data.decode())
    if command.flags.get("file"):
        return Reply({}, _log(draft, str(command.flags["file"])))
    return Reply({"manifest": data.decode()}, lambda: contribute.shown(draft), data.decode())


def _log(draft: Draft, role: str) -> str:
    digests = {file.role: file.sha256 for file in draft.manifest.files}
    if role not in digests:
        hint = "one of: " + ", ".join(digests) if digests else "none would be sent"
        raise Error("bad-value", f"--file={role} is not a file of this result", hint=hint)
    return draft.files[digests[role]].decode("utf-8", "replace")


def _state(client: ClientHome) -> Reply:
    sent = [
        {k: v for k, v in upload.items() if k != "delete_token"} for _, upload in client.states()
    ]
    level = client.consent()
    lines = [f"consent: {level or 'not asked yet'} {contribute.LEVELS.get(level, '')}".rstrip()]
    for upload in sent:
        state = "sent" if upload.get("done") else "begun"
        lines.append(f"{state:<6} {upload.get('id', '')}  {upload.get('server', '')}")
    data = {"consent": level, "sent": sent}
    return Reply(data, "\n".join(lines if sent else [*lines, "nothing was sent"]), data)


def plan_crowd(command: Command) -> Reply:
    """``cm plan crowd --model=M``: what measuring would do, download and take; runs nothing.

    Raises ``unknown-flag`` and what ``cm plan script`` does.
    """
    from cmbench import api
    from cmbench.render.plans import plan_text

    refuse_unknown(command.flags, (*_MEASURED, *_COMMON))
    flags = {k: v for k, v in command.flags.items() if k not in _COMMON}
    request = api.request(command.workspace, tags="crowd,benchmark", **flags)
    planned = api.plan(request)
    text = plan_text(planned.plan, planned.totals)
    return Reply({"plan": planned.data()}, text, planned.data())


def bundle_crowd(command: Command) -> Reply:
    """``cm bundle crowd RESULT --output=FILE``: what would be sent, as a file for elsewhere.

    Raises what ``contribute.drafted`` does, ``needs-input``, ``not-confirmed``.
    """
    refuse_unknown(command.flags, (*_WISH, *_COMMON, "output"))
    word, wish = _result(command), _wish(command)
    out = command.flags.get("output")
    path = Path(f"{word}.crowd.zip" if out in (None, True) else str(out)).expanduser()
    path = path / f"{word}.crowd.zip" if path.is_dir() else path
    client = ClientHome(command.workspace.root)
    draft, stored = contribute.drafted(command.workspace.root, word, wish)
    if not wish.yes and wish.may_ask:
        draft = contribute.confirmed(draft, wish, str(path))
    parcel = contribute.packed(client, draft, stored)
    publish(path, bundle.pack(parcel))
    data = {"path": str(path), "id": parcel.manifest.id}
    return Reply(data, f"{path}: send it with cm upload crowd {path.name} --server=URL", data)


def upload_crowd(command: Command) -> Reply:
    """``cm upload crowd RESULT|FILE --server=URL``: show it, ask, send; goes on where it stopped.

    Raises ``needs-input``, ``not-confirmed``, as ``contribute.drafted`` and ``CrowdClient.send``.
    """
    refuse_unknown(command.flags, (*_WISH, *_COMMON, "server", "token_file"))
    word, wish, server = _result(command), _wish(command), server_of(command.flags)
    client = ClientHome(command.workspace.root)
    if _is_file(word):
        parcel = bundle.read(Path(word))
        contribute.confirmed(Draft(parcel.manifest, parcel.files), wish, server.base)
        stored = client.outbox / f"{parcel.manifest.id}.zip"
    else:
        draft, stored = contribute.drafted(command.workspace.root, word, wish)
        parcel = contribute.packed(client, contribute.confirmed(draft, wish, server.base), stored)
    answer = contribute.sent(client, parcel, stored, server, _say(command))
    return Reply(answer, contribute.answer_text(answer, server), answer)


def _say(command: Command) -> Callable[[str], None]:
    """Shows progress; with JSON output, which programs read, it goes to stderr."""
    if not command.flags.get("json"):
        return command.say
    return lambda text: print(visible(text), file=sys.stderr)


def withdraw_crowd(command: Command) -> Reply:
    """``cm withdraw crowd ID|all``: servers remove it; ``--consent`` takes the consent back too.

    Raises what ``contribute.withdrawn`` does.
    """
    refuse_unknown(command.flags, ("consent", *_COMMON))
    done = []
    if command.flags.get("consent"):
        ClientHome(command.workspace.root).agree(0)
    if command.names or not command.flags.get("consent"):
        done = contribute.withdrawn(command.workspace.root, _result(command))
    text = "\n".join(f"withdrawn: {name}" for name in done) or "nothing will be sent from now on"
    return Reply({"list": done}, text, done)


def lease_crowd(command: Command) -> Reply:
    """``cm lease crowd [WORK] --server=URL``: work that is wanted, and how to do it.

    Raises ``needs-input``, ``server-refused`` and what ``CrowdClient.send`` does.
    """
    refuse_unknown(command.flags, ("server", "token_file", "list", *_COMMON))
    server = server_of(command.flags)
    if command.flags.get("list"):
        items = server.work()
        lines = [line for item in items if isinstance(item, dict) for line in _work(item)]
        text = visible("\n".join(lines) or "there is no work now")
        return Reply({"list": items}, text, items)
    leased = contribute.leased(command.workspace.root, server, next(iter(command.names), ""))
    spec = leased.get("spec") if isinstance(leased.get("spec"), dict) else {}
    lines = [f"work {leased['id']}, until {_when(leased.get('deadline'))}"]
    lines += [f"  {name:<12} {value!s:.80}" for name, value in (spec or {}).items()]
    run = f"cm run script --tags=crowd,benchmark --work_unit={leased['id']}"
    lines += [f"measure it: {run} --server={server.base}"]
    lines += [f"cannot do it: cm return crowd {leased['id']} --server={server.base}"]
    return Reply(leased, "\n".join(lines), leased)


def _work(item: Mapping[str, Any]) -> list[str]:
    """Return open work, as its server describes it, in lines for a terminal."""
    work, confirmed, needed, leased = (
        f"{item.get(name, '?')!s:.40}" for name in ("id", "confirmed", "wanted", "leased")
    )
    spec = item.get("spec")
    words = " ".join(f"{value!s:.80}" for value in spec.values()) if isinstance(spec, dict) else ""
    head = f"{work}  {confirmed} of {needed} hosts, {leased} at work"
    return [head, *wrapped(words, "  ", "  ")]


def _when(deadline: object) -> str:
    """Seconds since 1970 as a time in UTC."""
    if not isinstance(deadline, int | float) or not 0 <= deadline < 1e11:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(deadline))


def return_crowd(command: Command) -> Reply:
    """``cm return crowd UNIT --server=URL``: give leased work back.

    Raises ``needs-input``, ``server-refused`` and what ``CrowdClient.send`` does.
    """
    refuse_unknown(command.flags, ("server", "token_file", *_COMMON))
    unit = _result(command)
    contribute.returned(command.workspace.root, server_of(command.flags), unit)
    return Reply({}, f"given back: {unit}", {"id": unit})


def server_of(flags: Mapping[str, Any]) -> CrowdClient:
    """Return the server of flags; raise ``needs-input``, ``bad-value``, ``file-not-found``."""
    url, path = flags.get("server"), flags.get("token_file")
    if not url or url is True:
        raise Error("needs-input", "no server is named", hint="add --server=https://HOST")
    token = ""
    if path:
        try:
            token = Path(str(path)).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            hint = "name a file that contains the server's token"
            raise Error("file-not-found", f"{path} cannot be read", hint=hint) from None
    return CrowdClient.at(str(url), token)


def _wish(command: Command) -> UploadOptions:
    return wish_of(command.flags, command.can_ask)


def wish_of(flags: Mapping[str, Any], may_ask: bool) -> UploadOptions:
    """Return the upload options of flags; raise ``bad-value``."""
    level = str(flags.get("consent") or "0")
    if level not in ("0", *map(str, contribute.LEVELS)):
        hint = "\n".join(f"{number}: {what}" for number, what in contribute.LEVELS.items())
        raise Error("bad-value", f"--consent={level} is not a level", hint=hint)
    names_text = flags.get("without")
    names = (
        tuple(filter(None, str(names_text).split(",")))
        if names_text and names_text is not True
        else ()
    )
    unit = flags.get("work_unit")
    yes = bool(flags.get("yes") or flags.get("y"))
    return UploadOptions(names, int(level), str(unit) if unit else None, yes, may_ask)


def _result(command: Command) -> str:
    if not command.names:
        hint = "name one of `cm find results`, or last"
        raise Error("needs-input", "no result is named", hint=hint)
    return command.names[0]


def _is_file(word: str) -> bool:
    return word.endswith(".zip") or Path(word).is_file()
