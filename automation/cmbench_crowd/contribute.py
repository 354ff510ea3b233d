"""From a result's id to a server, with what is shown to the user and confirmed on the way.

The verbs and the script ``run-crowd-benchmark`` share it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error, visible
from cmbench.lib.files import file_error
from cmbench_crowd import bundle, drafts, leases
from cmbench_crowd import manifest as m
from cmbench_crowd.bundle import UploadBundle
from cmbench_crowd.client_home import ClientHome, needs_cryptography, publish
from cmbench_crowd.drafts import Draft
from cmbench_crowd.http_client import CrowdClient
from cmbench_results.result_sources import ResultSource, SourceFiles
from cmbench_results.values import BenchmarkResult
from common.text import wrapped

LEVELS = {
    m.METRICS: "the figures, and the hardware they were measured on",
    m.SOFTWARE: "also the names and versions of the software used",
    m.LOGS: "also LoadGen's logs, by which a server can check the figures",
}
_OPEN = (1, "open")
_VERDICTS = {"False": (0, "failed"), "True": (2, "passed")}


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """Options of an upload: fields switched off, a level of consent, a work unit.

    ``may_ask``: a person is at a terminal. ``yes``: it was said beforehand that it is sent.
    ``look``: it is only shown, which is no consent.
    """

    without: tuple[str, ...] = ()
    consent: int = 0
    work_unit: str | None = None
    yes: bool = False
    may_ask: bool = False
    look: bool = False


def level_of(client: ClientHome, wish: UploadOptions) -> int:
    """Return the level of consent: as wished, as kept, or as answered now; a new one is kept.

    Raises ``needs-input`` without a terminal, ``not-confirmed`` for a no.
    """
    level = wish.consent or client.consent()
    if not level and not wish.may_ask:
        raise Error(
            "needs-input",
            "nobody has agreed yet to send results of this machine",
            hint=f"add --consent=N{'' if wish.look else ', which is kept'}:\n"
            + "\n".join(f"{number}: {what}" for number, what in LEVELS.items()),
        )
    if not level:
        level = _asked_level()
    if level != client.consent() and not (wish.look and wish.consent):
        client.agree(level)
    return level


def _asked_level() -> int:
    print("\nNothing has been sent from this machine so far. With your consent, this may be sent:")
    level = 0
    for number, what in LEVELS.items():
        if not ask(f"  {what}? [y/N] "):
            break
        level = number
    if not level:
        raise Error("not-confirmed", "nothing was sent", hint="results stay on this machine")
    return level


def ask(question: str) -> bool:
    """Return whether a person answers yes."""
    return answered(question).lower() in ("y", "yes")


def answered(question: str) -> str:
    """Return what a person answers; empty where the input ends."""
    print(visible(question), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def result_of(root: str | os.PathLike[str], word: str) -> BenchmarkResult:
    """Return a stored result by a prefix of its id, or the newest of this machine: ``last``.

    Raises ``result-not-found``, ``ambiguous``; ``broken-results`` where it may be in a file that
    cannot be read.
    """
    results, broken = _results_of(SourceFiles(root))
    matches = [item for uid, item in results.items() if word and uid.startswith(word)]
    if word == "last":
        own = [item for item in results.values() if item.key.startswith("run:")]
        matches = sorted(own, key=lambda item: (item.measured_at, item.uid))[-1:]
    if not matches and broken:
        raise broken[0]
    if not matches:
        hint = "see the ids with `cm find results`; measure: `cm run script --tags=crowd,benchmark`"
        raise Error("result-not-found", f"no result has the id {word}", hint=hint)
    if len(matches) > 1:
        hint = "give more characters: " + ", ".join(sorted(item.uid for item in matches)[:5])
        raise Error("ambiguous", f"{len(matches)} results begin with {word}", hint=hint)
    return matches[0]


def _results_of(places: SourceFiles) -> tuple[dict[str, BenchmarkResult], list[Error]]:
    """Return the results of all files that can be read, and the errors of the others."""
    readable, broken = places.readable()

    def of(source: ResultSource) -> list[BenchmarkResult]:
        try:
            return list(places.results(source))
        except Error as error:
            broken.append(error)
            return []

    return {result.uid: result for source in readable for result in of(source)}, broken


def drafted(root: str | os.PathLike[str], word: str, wish: UploadOptions) -> tuple[Draft, Path]:
    """Return the draft of a result, and the path of its bundle.

    Raises what ``level_of``, ``result_of``, ``drafts.draft`` and ``drafts.without`` do.
    """
    client = ClientHome(root)
    result = result_of(root, word)
    level = level_of(client, wish)
    made = drafts.draft(result, level, client.key(), work_unit=wish.work_unit)
    made = drafts.without(made, wish.without)
    path = client.outbox / f"{result.uid}.zip"
    earlier = _kept(path)
    if earlier is not None and _content(earlier.manifest) == _content(made.manifest):
        made = replace(made, manifest=earlier.manifest)
    return made, path


def shown(draft: Draft) -> str:
    """Return every field that would leave, and how many bytes that are."""
    every = list(drafts.lines(draft.manifest))
    filled = [field for field in every if field[1]]
    empty = ", ".join(name for name, value in every if not value)
    wide = max(len(name) for name, _ in filled)
    size = len(m.encode(draft.manifest)) + sum(map(len, draft.files.values()))
    lines = [line for name, value in filled for line in _wrapped(f"  {name:<{wide}}  ", value)]
    lines += _wrapped("  empty: ", empty, 4)
    lines += [line for note in draft.notes for line in _wrapped("note: ", note)]
    return "\n".join(
        [
            f"What would leave this machine ({size:,} bytes), field by field:",
            *lines,
            "Not verified by MLCommons. To leave a field out: --without=NAME,NAME",
        ]
    )


def _wrapped(head: str, text: str, indent: int = 0) -> list[str]:
    """Lines for a terminal, those after the first below its text, or ``indent`` wide."""
    return wrapped(text, head, " " * (indent or len(head))) or [head.rstrip()]


def confirmed(draft: Draft, wish: UploadOptions, where: str) -> Draft:
    """Return the draft as a person wants it, who has said yes; raise ``not-confirmed``."""
    print(visible(shown(draft)), file=sys.stderr)
    if wish.yes:
        return draft
    while wish.may_ask:
        said = answered("Leave out (names separated by commas; empty to continue): ")
        if not said:
            break
        try:
            draft = drafts.without(draft, [word.strip() for word in said.split(",")])
        except Error as problem:
            print(visible(problem.render()), file=sys.stderr)
            continue
        print(visible(shown(draft)), file=sys.stderr)
    if wish.may_ask and ask(f"Send this to {where}? [y/N] "):
        return draft
    raise Error("not-confirmed", "nothing was sent", hint="answer y, or add --yes, to send it")


def packed(client: ClientHome, draft: Draft, stored: Path) -> UploadBundle:
    """Return the signed parcel of a draft, kept at ``stored`` until it is withdrawn.

    One that is there with the same content is taken as it is, with its id: so a result that is sent
    again, after whatever has happened, stays one. Raises ``already-sent``.
    """
    earlier = _kept(stored)
    if earlier is not None and _content(earlier.manifest) == _content(draft.manifest):
        return earlier
    if any(path.name.startswith(f"{stored.stem}.") for path, _ in client.states()):
        raise Error(
            "already-sent",
            "this result was sent before, with other fields",
            hint=f"withdraw it first: `cm withdraw crowd {stored.stem[:8]}`",
        )
    data = m.encode(draft.manifest)
    parcel = UploadBundle(data, m.to_text(client.key().sign(data)), draft.files)
    publish(stored, bundle.pack(parcel))
    return parcel


def _kept(path: Path) -> UploadBundle | None:
    try:
        return bundle.read(path)
    except Error:
        return None


def _content(manifest: m.Manifest) -> dict[str, Any]:
    return {name: value for name, value in asdict(manifest).items() if name != "id"}


def sent(
    client: ClientHome,
    parcel: UploadBundle,
    path: Path,
    server: CrowdClient,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Send a parcel, or resume; return the answer. Raises what ``CrowdClient.send`` does."""
    earlier = client.sent(path, server.base)

    def note(state: Mapping[str, Any]) -> None:
        client.note(path, server.base, state)

    if not earlier:
        # Who is killed before the answer comes has sent it all the same.
        note({"id": parcel.manifest.id, "delete_token": "", "done": False})
    try:
        return server.send(parcel, earlier, note, say)
    except Error as problem:
        if problem.code == "upload-removed":
            # A withdrawal that was killed before it was noted here.
            client.forget(client.state(path, server.base))
        raise


def withdrawn(root: str | os.PathLike[str], word: str, patience: Any = None) -> list[str]:
    """Let servers remove a result, or ``all``; the ids of those removed.

    One that cannot be reached does not keep others from it. Raises ``result-not-found``,
    ``ambiguous``, and what ``CrowdClient.withdraw`` does.
    """
    client = ClientHome(root)
    uploads = _sent_as(client, result_of(root, word).uid if word == "last" else word)
    ends = [(state, _withdraw(client, path, state, patience)) for path, state in uploads]
    done = [str(state["id"]) for state, problem in ends if problem is None]
    failed = [problem for _, problem in ends if problem is not None]
    if failed:
        first, many = failed[0], f" ({len(done)} of {len(uploads)} were removed)"
        again = "nothing is lost: repeat the command"
        hint = again if first.code == "server-unreachable" else first.hint
        raise Error(first.code, first.message + many * (len(uploads) > 1), hint=hint)
    return done


def _sent_as(client: ClientHome, word: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return what was sent of one result, or of ``all``."""
    uploads = [(p, state) for p, state in client.states() if word and _named(p, state, word)]
    if not uploads:
        hint = "`cm show crowd` lists what was sent"
        raise Error("result-not-found", f"nothing was sent under the id {word}", hint=hint)
    if word != "all" and len({path.name.partition(".")[0] for path, _ in uploads}) > 1:
        hint = "give more characters: " + ", ".join(
            str(state.get("id", "")) for _, state in uploads[:5]
        )
        words = f"{len(uploads)} results that were sent begin with {word}"
        raise Error("ambiguous", words, hint=hint)
    return uploads


def _withdraw(
    client: ClientHome, path: Path, state: Mapping[str, Any], patience: Any
) -> Error | None:
    """Let one server remove a result; why that has failed, if it has."""
    try:
        server = CrowdClient.at(str(state["server"]), patience=patience)
        server.withdraw(str(state["id"]), str(state.get("delete_token", "")))
        client.forget(path)
    except Error as problem:
        return problem
    except OSError as problem:
        error = file_error(problem, path)
        words = f"{server.base} has removed {state['id']}, but this cannot be recorded here: "
        return Error(error.code, words + error.message, hint=error.hint)
    return None


def _named(path: Path, state: Mapping[str, Any], word: str) -> bool:
    return word == "all" or path.name.startswith(word) or str(state.get("id", "")).startswith(word)


def leased(root: str | os.PathLike[str], server: CrowdClient, work: str) -> dict[str, Any]:
    """Work of a server's list for this device, of one's choice or of the server's; it is kept.

    Raises what ``CrowdClient.lease`` and ``leases.keep`` do.
    """
    lease = server.lease(*_signed_request(root, {"do": "lease", "work": work}))
    leases.keep(ClientHome(root), lease)
    return lease


def returned(root: str | os.PathLike[str], server: CrowdClient, unit: str) -> None:
    """Return leased work, so that others can lease it; raise what ``CrowdClient.lease`` does."""
    server.give_back(unit, *_signed_request(root, {"do": "return", "work": unit}))


def _signed_request(root: str | os.PathLike[str], fields: Mapping[str, str]) -> tuple[bytes, str]:
    key = ClientHome(root).key()
    text = m.key_text(key.public_key().public_bytes_raw())
    data = m.canonical({"key": text, **fields})
    return data, m.to_text(key.sign(data))


def results_in(folder: str) -> Iterator[BenchmarkResult]:
    """Yield the results that a folder of a run holds now."""
    from cmbench_results.readers import run

    for result in run.read(Path(folder) / "results.json"):
        if isinstance(result, BenchmarkResult):
            yield result


def offer(
    root: str | os.PathLike[str],
    words: Sequence[str],
    wish: UploadOptions,
    server: CrowdClient | None,
    say: Callable[[str], None],
) -> None:
    """Show the drafts of results, and send them if a server is named and the user agrees."""
    needs_cryptography()
    client = ClientHome(root)
    for word in words:
        draft, path = drafted(root, word, wish)
        if server is None:
            say(shown(draft))
            say(f"Nothing was sent. To send it: cm upload crowd {word[:8]} --server=URL")
            continue
        parcel = packed(client, confirmed(draft, wish, server.base), path)
        say(answer_text(sent(client, parcel, path, server, say), server))


def answer_text(answer: Mapping[str, Any], server: CrowdClient) -> str:
    """Return the answer of a server about a result, in lines: failed checks first."""
    checks = answer.get("checks")
    entries = (
        [entry for entry in checks if isinstance(entry, dict)] if isinstance(checks, list) else []
    )
    entries.sort(key=lambda entry: _VERDICTS.get(str(entry.get("passed")), _OPEN))
    state, tier = (str(answer.get(name, ""))[:60] for name in ("state", "tier"))
    run = str(answer.get("id", ""))[:64]
    lines = [f"sent to {server.base} as {run}: {state}, {tier}"]
    lines += [line for entry in entries[:100] for line in _check(entry)]
    return visible("\n".join([*lines, f"to follow it: {server.base}/uploads/{run}"]))


def _check(entry: Mapping[str, Any]) -> list[str]:
    verdict = _VERDICTS.get(str(entry.get("passed")), _OPEN)[1]
    return _wrapped(f"  {verdict:<6}  ", str(entry.get("words", ""))[:200])
