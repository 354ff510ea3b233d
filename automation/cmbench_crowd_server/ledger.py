"""The server's record of uploads: a row for each, its state, its checks, and its events.

An upload is ``receiving`` its files, ``queued`` for the checks, ``checking``; then ``refused`` by
them, or in ``quarantine`` until a person has looked, and ``published``. ``rejected`` is a person's
no. ``removed`` is all that is left after its sender's delete token: an id that cannot be used
again. A change is written with its line in the log of events, or not at all.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench_crowd import manifest as m
from cmbench_results.schema import crowd_event, crowd_run, crowd_sender
from cmbench_results.sql import sa
from cmbench_results.store import Store
from cmbench_results.values import CHECKED, REPRODUCED, UPLOADED, digest

RECEIVING, QUEUED, CHECKING, REFUSED = "receiving", "queued", "checking", "refused"
QUARANTINE, PUBLISHED, REJECTED, REMOVED = "quarantine", "published", "rejected", "removed"
COUNTED = (QUARANTINE, PUBLISHED)
"""States in which a run is compared with those of others."""
PROVEN = (CHECKED, REPRODUCED)
HOUR_S, DAY_S = 3600.0, 86_400.0
AUDITS = 10
"""Of so much work one is audited."""
SERVER = "server"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
LONGEST = 400
"""Characters of what a check says."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is taken of one key and of one network.

    That is in an hour, begun and not ended at a time, and not yet seen by a person; work that is
    leased anew, to a key in an hour, to a network in a day. What was begun and not ended in
    ``unfinished_s`` seconds is forgotten.
    """

    of_key: int = 60
    of_network: int = 300
    open_of_key: int = 10
    open_of_network: int = 40
    waiting_of_network: int = 1_000
    waiting: int = 10_000
    leases_of_key: int = 20
    leases_of_network: int = 100
    unfinished_s: float = DAY_S


class Ledger:
    """The rows of one server; ``secret`` makes its delete tokens and hides addresses."""

    def __init__(self, store: Store, secret: bytes, limits: Limits | None = None) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._secret = secret
        self._leased: deque[tuple[float, str]] = deque(maxlen=100_000)

    def network(self, address: str, proxied: bool = False) -> str:
        """Return a pseudonym of the /24 or /48 of an address; empty for our own.

        ``proxied`` says that a proxy forwards to our own address: all of these are one network.
        """
        try:
            parsed = _address(address)
        except ValueError:
            return self._derived("network proxy")[:16] if proxied else ""
        if parsed.is_loopback:
            return self._derived("network proxy")[:16] if proxied else ""
        wide = ipaddress.ip_network((parsed, 24 if parsed.version == 4 else 48), strict=False)
        return self._derived(f"network {wide}")[:16]

    def delete_token(self, run: str) -> str:
        """Return the token that removes an upload; it is derived from the id."""
        return self._derived(f"delete {run}")

    def is_audited(self, work: str) -> bool:
        """Return whether work is one of those by chance that one more host measures than usual."""
        return int(self._derived(f"audit {work}"), 16) % AUDITS == 0

    def _derived(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def receive(self, data: bytes, manifest: m.Manifest, network: str) -> bool:
        """Take a manifest whose signature was checked; whether it is a new one.

        Raises ``too-many``, ``upload-removed``, ``wrong-state`` for an id with another manifest.
        """
        with self.store.writing() as connection:
            existing = self._row(connection, manifest.id)
            if existing is not None:
                if existing["state"] == REMOVED:
                    raise _removed(manifest.id)
                if existing["digest"] != m.digest(data):
                    raise Error(
                        "wrong-state",
                        f"{manifest.id} is the id of another manifest",
                        hint="give each result an id of its own",
                    )
                return False
            sender = sender_of(manifest.key)
            self._admit(connection, sender, manifest.key, network)
            connection.execute(crowd_run.insert(), _new(data, manifest, sender, network))
            self._tell(connection, sender, "received", manifest.id)
        return True

    def _admit(self, connection: sa.Connection, sender: str, key: str, network: str) -> None:
        if not self.admits(connection, sender):
            row = {"id": sender, "key": key, "since": time.time(), "blocked": False}
            connection.execute(crowd_sender.insert(), row)
        for most, conditions, words, hint in self._bounds(sender, network):
            if _count(connection, *conditions) >= most:
                raise Error("too-many", words.format(most), hint=hint)

    def admits(self, connection: sa.Connection, sender: str) -> bool:
        """Return whether a key has sent something before; raise ``bad-token`` for a blocked one."""
        who = connection.execute(sa.select(crowd_sender).where(crowd_sender.c.id == sender)).first()
        if who is not None and who.blocked:
            raise Error("bad-token", "this key was blocked", hint="ask who runs the server")
        return who is not None

    def lease_to(self, network: str) -> None:
        """Count a new lease of a network; raises ``too-many``.

        Keys cost nothing: with many of them one network could take all work.
        """
        since, most = time.monotonic() - DAY_S, self.limits.leases_of_network
        if network and sum(at > since and who == network for at, who in self._leased) >= most:
            words = f"at most {most} leases per day are given to one network"
            raise Error("too-many", words, hint="try again tomorrow")
        self._leased.append((time.monotonic(), network))

    def _bounds(self, sender: str, network: str) -> Iterator[tuple[int, Sequence[Any], str, str]]:
        """Yield the limits, the uploads that count for them, and their messages."""
        limits, column = self.limits, crowd_run.c
        of_key, of_network = column.sender == sender, column.network == (network or "none")
        lately = column.at > time.time() - HOUR_S
        later = "send the others an hour later"
        words = "at most {} results per hour are accepted from one "
        yield limits.of_key, (lately, of_key), words + "key", later
        yield limits.of_network, (lately, of_network), words + "network", later
        begun, ended = column.state == RECEIVING, "finish those that were started, or wait a day"
        words = "at most {} unfinished results are accepted from one "
        yield limits.open_of_key, (begun, of_key), words + "key", ended
        yield limits.open_of_network, (begun, of_network), words + "network", ended
        waiting = column.state.in_((RECEIVING, QUEUED, CHECKING, QUARANTINE))
        tomorrow, words = "try again tomorrow", "too many results are waiting for review: {}"
        yield limits.waiting_of_network, (waiting, of_network), words, tomorrow
        yield limits.waiting, (waiting,), words, tomorrow

    def row(self, run: str) -> Row:
        """Return the row of an upload; raise ``upload-not-found``, ``upload-removed``."""
        row = self.trace(run)
        if row["state"] == REMOVED:
            raise _removed(run)
        return row

    def trace(self, run: str) -> Row:
        """``row``, of what was removed too; raises ``upload-not-found``."""
        with self.store.reading() as connection:
            row = self._row(connection, run)
        if row is None:
            raise Error("upload-not-found", f"no result has the id {run:.40}", hint="check the id")
        return row

    def _row(self, connection: sa.Connection, run: str) -> Row | None:
        chosen = sa.select(crowd_run).where(crowd_run.c.id == run)
        row = connection.execute(chosen).mappings().first()
        return None if row is None else dict(row)

    def is_new(self) -> bool:
        """Return whether nothing was ever uploaded."""
        with self.store.reading() as connection:
            return connection.execute(sa.select(crowd_run.c.id).limit(1)).first() is None

    def rows(self, *conditions: Any) -> list[Row]:
        """Return the uploads that fit, the oldest first."""
        chosen = sa.select(crowd_run).where(*conditions).order_by(crowd_run.c.at, crowd_run.c.id)
        with self.store.reading() as connection:
            return [dict(row) for row in connection.execute(chosen).mappings()]

    def move(
        self,
        run: str,
        before: Sequence[str],
        state: str,
        who: str = SERVER,
        why: str = "",
        **more: Any,
    ) -> bool:
        """Bring an upload from one of the states ``before`` into another; whether it was in one."""
        condition = (crowd_run.c.id == run, crowd_run.c.state.in_(before))
        with self.store.writing() as connection:
            changed = crowd_run.update().where(*condition).values(state=state, **more)
            if not connection.execute(changed).rowcount:
                return False
            self._tell(connection, who, state, run, why)
        return True

    def expire(self) -> None:
        """Forget what was begun long ago and has not come to its end; it may begin anew."""
        old = crowd_run.c.at < time.time() - self.limits.unfinished_s
        with self.store.writing() as connection:
            chosen = sa.select(crowd_run.c.id).where(crowd_run.c.state == RECEIVING, old)
            for run in connection.execute(chosen).scalars().all():
                connection.execute(crowd_run.delete().where(crowd_run.c.id == run))
                self._tell(connection, SERVER, "expired", run)
            # So long it counts for the limit of its network.
            removed = (crowd_run.c.state == REMOVED, crowd_run.c.network != "")
            lately = crowd_run.c.at >= time.time() - HOUR_S
            connection.execute(crowd_run.update().where(*removed, ~lately).values(network=""))

    def kept(self) -> set[str]:
        """Return the ids of uploads whose files are still looked at."""
        gone = crowd_run.c.state.in_((REMOVED, REFUSED))
        with self.store.reading() as connection:
            return set(connection.execute(sa.select(crowd_run.c.id).where(~gone)).scalars())

    def requeue(self) -> None:
        """Let what a server was checking when it ended be checked again."""
        stopped = crowd_run.c.state == CHECKING
        with self.store.writing() as connection:
            connection.execute(crowd_run.update().where(stopped).values(state=QUEUED))

    def set_tiers(self, tiers: Mapping[str, tuple[str, Sequence[Row]]]) -> None:
        """Give runs their tier and their checks."""
        with self.store.writing() as connection:
            for run, (tier, checks) in tiers.items():
                changed = crowd_run.update().where(crowd_run.c.id == run)
                connection.execute(changed.values(tier=tier, checks=list(checks)))
                self._tell(connection, SERVER, f"tier {tier}", run)

    def remove(self, run: str, token: str) -> None:
        """Forget an upload but for its id; raises ``bad-token``, ``upload-not-found``."""
        self.trace(run)
        if not hmac.compare_digest(token.encode(), self.delete_token(run).encode()):
            raise Error("bad-token", "this is not the delete token", hint="it came with the upload")
        empty: dict[str, Any] = {
            "manifest": "",
            "checks": [],
            "result": "",
            "value": None,
            "tier": "",
        }
        every = (RECEIVING, QUEUED, CHECKING, REFUSED, QUARANTINE, PUBLISHED, REJECTED)
        self.move(run, every, REMOVED, "sender", seconds=0.0, log_digest="", **empty)

    def events(self, about: str = "", most: int = 100) -> list[Row]:
        """Return the newest lines of the log of events, of one upload or of all."""
        chosen = sa.select(crowd_event).order_by(crowd_event.c.id.desc()).limit(most)
        if about:
            chosen = chosen.where(crowd_event.c.about == about)
        with self.store.reading() as connection:
            return [dict(row) for row in connection.execute(chosen).mappings()]

    def check_sender(self, word: str) -> None:
        """Raise ``upload-not-found`` for a word that is no contributor of an upload."""
        with self.store.reading() as connection:
            senders = set(connection.execute(sa.select(crowd_sender.c.id)).scalars())
            run = self._row(connection, word)
        if word in senders:
            return
        if run is not None:
            raise Error(
                "upload-not-found",
                f"{word:.40} is a result, not a contributor",
                hint=f"to block who has sent it: --block={run['sender']}",
            )
        raise Error(
            "upload-not-found",
            f"contributor {word:.40} has sent nothing",
            hint=did_you_mean(word, senders) or "see who has sent a result: `cm review results ID`",
        )

    def block(self, sender: str, who: str) -> None:
        """Take nothing more of a key; raises what ``check_sender`` does."""
        self.check_sender(sender)
        with self.store.writing() as connection:
            same = crowd_sender.c.id == sender
            connection.execute(crowd_sender.update().where(same).values(blocked=True))
            self._tell(connection, who, "blocked", sender)

    def tell(self, who: str, what: str, about: str, detail: str = "") -> None:
        """Add a line to the log of events."""
        with self.store.writing() as connection:
            self._tell(connection, who, what, about, detail)

    def _tell(self, c: sa.Connection, who: str, what: str, about: str, detail: str = "") -> None:
        row = {
            "at": time.time(),
            "who": who,
            "what": what,
            "about": about,
            "told": plain(detail, 2000),
        }
        c.execute(crowd_event.insert(), row)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address that a socket or a proxy names, some with a port; raise ``ValueError``."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    parsed = ipaddress.ip_address(host)
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed
    # An address of IPv4 as sockets for both write it, or 6to4 and NAT64, which have no loopback.
    nat64 = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF) if parsed in _NAT64 else None
    short = parsed.sixtofour or nat64
    return parsed.ipv4_mapped or (short if short and not short.is_loopback else parsed)


def sender_of(key: str) -> str:
    """Return what pages call the holder of a public key by."""
    return digest(["sender", key])[:16]


def hardware_of(system: m.ManifestSystem) -> str:
    """Return the class of a machine: its parts, with the memory to the next power of two in GB."""
    parts = asdict(system)
    parts["memory_gb"] = max(0, round(system.memory_gb) - 1).bit_length()
    return digest(parts)[:16]


def work_of(manifest: m.Manifest) -> str:
    """Return the class of what was measured: what must be equal for figures to be compared."""
    work, config = manifest.workload, manifest.config
    names = ("suite", "round", "benchmark", "model", "scenario", "division", "precision")
    versions = manifest.software.versions if manifest.software else {}
    major = versions.get(config.backend, "").partition(".")[0]
    return digest([[getattr(work, n) for n in names], config.backend, major, config.style])[:16]


def manifest_of(row: Row) -> m.Manifest:
    """Return the manifest of an upload."""
    return m.parse(row["manifest"].encode("utf-8"))


def public(row: Row) -> dict[str, Any]:
    """Return what anybody may know of an upload."""
    return {
        "id": row["id"],
        "state": row["state"],
        "tier": row["tier"],
        "contributor": row["sender"],
        "checks": list(row["checks"]),
        "figure": json.loads(row["result"]).get("value") if row["result"] else None,
        "verified": "not verified by MLCommons",
    }


IDLE = "does not apply"
"""The name of a check of a rule that is about other results."""
HELD = "needs a review"
"""The name of a check that only a person can make: such an upload is not published unseen."""


def check(name: str, passed: bool | None, words: str) -> dict[str, Any]:
    """Return one check of a result, in words; ``None`` where it could not be made."""
    return {"check": name, "passed": passed, "words": plain(words)}


def plain(text: str, most: int = LONGEST) -> str:
    """``text``, which a log may have said, as pages, terminals and databases take it."""
    cut = text if len(text) <= most else f"{text[: most - 3]}..."
    if cut.isprintable():
        return cut
    # PostgreSQL has no NUL, no database a surrogate, and a sign may turn a line round.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def _new(data: bytes, manifest: m.Manifest, sender: str, network: str) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "digest": m.digest(data),
        "sender": sender,
        "network": network,
        "at": time.time(),
        "state": RECEIVING,
        "tier": UPLOADED,
        "hardware": hardware_of(manifest.system),
        "work": work_of(manifest),
        "manifest": data.decode("utf-8"),
        "log_digest": "",
        "lease": manifest.work_unit or "",
        "value": None,
        "seconds": 0.0,
        "checks": [check("signature", True, "the manifest is signed by its key")],
        "result": "",
    }


def _count(connection: sa.Connection, *conditions: Any) -> int:
    counted = sa.select(sa.func.count()).select_from(crowd_run).where(*conditions)
    return int(connection.execute(counted).scalar() or 0)


def _removed(run: str) -> Error:
    return Error(
        "upload-removed", f"{run} was removed by its sender", hint="send the result with a new id"
    )
