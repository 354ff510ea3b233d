"""Work that this device has leased from a server: what to measure, with which seed, until when."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cmbench.errors import Error
from cmbench_crowd.client_home import ClientHome

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_SEED = re.compile(r"[1-9][0-9]{0,18}")
_ENV = {
    "benchmark": "CM_MLPERF_MODEL",
    "scenario": "CM_MLPERF_LOADGEN_SCENARIO",
    "backend": "CM_MLPERF_BACKEND",
    "precision": "CM_MLPERF_MODEL_PRECISION",
    "style": "CM_MLPERF_RUN_STYLE",
}


@dataclass(frozen=True, slots=True)
class Lease:
    """One unit; ``deadline`` in seconds since 1970, ``spec`` in the words of a manifest.

    LoadGen's seeds follow from ``seed``, so it cannot have been measured before it was leased.
    """

    id: str
    seed: str
    deadline: float
    spec: Mapping[str, str]

    def env(self) -> dict[str, str]:
        """Return the settings of the benchmark as the variables of its inputs."""
        requested = {_ENV[name]: value for name, value in self.spec.items() if name in _ENV}
        return {**requested, "CM_MLPERF_LOADGEN_SEED": self.seed}


def read_lease(fields: Mapping[str, Any]) -> Lease:
    """Return the lease in an answer of a server; raise ``bad-server`` for a malformed one."""
    spec = fields.get("spec")
    plain = {k: v for k, v in spec.items() if k in _ENV} if isinstance(spec, dict) else {}
    texts = {"id": (_ID, fields.get("id")), "seed": (_SEED, fields.get("seed"))}
    texts |= {name: (_WORD, value) for name, value in plain.items()}
    for name, (form, value) in texts.items():
        if not isinstance(value, str) or not form.fullmatch(value):
            raise _bad(name)
    deadline = fields.get("deadline")
    if not isinstance(deadline, int | float) or not 0 <= deadline < 1e11:
        raise _bad("deadline")
    return Lease(str(fields["id"]), str(fields["seed"]), float(deadline), plain)


def running_lease(client: ClientHome, unit: str) -> Lease:
    """Return a lease of this device that still runs; raise ``lease-not-found``."""
    fields = client.lease(unit) if _ID.fullmatch(unit) else {}
    lease = read_lease(fields) if fields else None
    if lease is None:
        raise Error(
            "lease-not-found",
            f"this device has not leased {unit:.80}",
            hint="lease it here first: `cm lease crowd --server=URL`",
        )
    if lease.deadline < time.time():
        raise Error(
            "lease-not-found",
            f"the time of work unit {unit} has expired: its result would not count",
            hint="lease work again: `cm lease crowd --server=URL`",
        )
    return lease


def keep(client: ClientHome, fields: Mapping[str, Any]) -> Lease:
    """Check what a server has leased, and keep it for the run; raises ``bad-server``."""
    lease = read_lease(fields)
    client.keep_lease(lease.id, asdict(lease))
    return lease


def _bad(name: str) -> Error:
    return Error(
        "bad-server",
        f"the {name} of the leased work is not valid",
        hint="check --server; nothing was started",
    )
