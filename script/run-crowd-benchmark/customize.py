"""Ask for what sending needs before hours of runs, and show after them what would be sent."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes

FLAGS = ("server", "token_file", "consent", "without", "work_unit")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse early what could not be sent in the end."""
    from cmbench_crowd import leases
    from cmbench_crowd.client_home import ClientHome, needs_cryptography
    from cmbench_crowd.contribute import level_of

    env = i["env"]
    wish, server = upload_request(env), server_of(env)
    if wish.work_unit:
        lease = leases.running_lease(ClientHome(root(i)), wish.work_unit)
        summary = ", ".join(f"{name} {value}" for name, value in lease.spec.items())
        print(f"work unit {lease.id}: {summary}")
        env.update(lease.env())
    if not server and wish.yes:
        raise Error("needs-input", "no server is named", hint="add --server=https://HOST")
    if server:
        needs_cryptography()
        level_of(ClientHome(root(i)), wish)
        ask_first(server)
    return {"return": 0}


def ask_first(server: Any) -> None:
    """Learn what an upload would be refused for; a server that is away may be back at the end."""
    try:
        server.ready()
    except Error as problem:
        if problem.code != "server-unreachable":
            raise
        print(f"note: {problem.message}; it is measured all the same, and sent later with")
        print(f"  cm upload crowd last --server={server.base}")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Show the new results field by field, and send them with the user's consent."""
    from cmbench_crowd.client_home import ClientHome
    from cmbench_crowd.contribute import offer, results_in

    env = i["env"]
    wish, server = upload_request(env), server_of(env)
    results = results_in(i["state"]["cm-mlperf-inference-results"]["folder"])
    names = [result.uid for result in results]
    env["CM_CROWD_RESULTS"] = ",".join(names)
    if server or wish.consent or ClientHome(root(i)).consent():
        offer(root(i), names, wish, server, print)
    else:
        for name in names:
            print(f"Nothing was sent. What would be: cm show crowd {name[:8]} --consent=3")
    return {"return": 0}


def root(i: dict[str, Any]) -> Path:
    """The folder of cmbench in the CM home."""
    return Path(os.path.abspath(str(i["automation"].cmind.repos_path))) / "cmbench"


def upload_request(env: dict[str, Any]) -> Any:
    """Return what is to be sent, and whether the user can be asked."""
    from cmbench_crowd.verbs import wish_of

    terminal = sys.__stdin__ is not None and sys.__stdin__.isatty()
    yes = is_yes(env.get("CM_CROWD_UPLOAD"))
    return wish_of({**flags(env), "yes": yes}, terminal and sys.stderr.isatty())


def server_of(env: dict[str, Any]) -> Any:
    """The server, where one is named."""
    from cmbench_crowd.verbs import server_of as named

    return named(flags(env)) if env.get("CM_CROWD_SERVER") else None


def flags(env: dict[str, Any]) -> dict[str, Any]:
    """The inputs in the words of ``cm upload crowd``."""
    return {name: env.get(f"CM_CROWD_{name.upper()}") or "" for name in FLAGS}
