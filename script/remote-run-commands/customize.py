"""Commands on another machine: files there, commands, files back; the host key always checked."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import archives, ssh
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    refuse(env)
    words = ssh.connection(*machine(env))
    for path in listed(env, "CM_SSH_FILES_TO_COPY"):
        send(words, Path(path).expanduser(), env["CM_SSH_TARGET_COPY_DIRECTORY"])
    run(words, commands(env), env.get("CM_SSH_REMOTE_SHELL", ""))
    for path in listed(env, "CM_SSH_FILES_TO_COPY_BACK"):
        fetch(words, path, Path(env.get("CM_SSH_PATH_TO_COPY_BACK_FILES") or ".").absolute())
    return {"return": 0}


def refuse(env: dict[str, Any]) -> None:
    """Raise Error for what would make the connection unsafe: it has a safe way."""
    host = env["CM_SSH_HOST"]
    if is_yes(env.get("CM_SSH_SKIP_HOST_VERIFY", "")):
        raise Error(
            "bad-value",
            "--skip_host_verify is not possible: host keys are always checked",
            hint=f"connect once by hand and compare the fingerprint: ssh {host}",
        )
    if env.get("CM_SSH_PASSWORD"):
        raise Error(
            "bad-value",
            "--password is not possible: others would see it in the list of processes",
            hint=f"copy your key there once: ssh-copy-id {host}",
        )


def machine(env: dict[str, Any]) -> tuple[str, list[str]]:
    """The host and the options of ``ssh``. Raises Error when the key file is missing."""
    user = env.get("CM_SSH_USER", "")
    host = f"{user}@{env['CM_SSH_HOST']}" if user else env["CM_SSH_HOST"]
    options = ["-o", f"ServerAliveInterval={env['CM_SSH_CLIENT_REFRESH']}"]
    if env.get("CM_SSH_PORT"):
        options += ["-p", str(env["CM_SSH_PORT"])]
    key = env.get("CM_SSH_KEY_FILE", "")
    if key and not is_yes(env.get("CM_SKIP_SSH_KEY_FILE", "")):
        path = Path(key).expanduser()
        if not path.is_file():
            raise Error("file-not-found", f"{path} does not exist", hint="check --ssh_key_file")
        options += ["-i", str(path)]
    return host, options


def listed(env: dict[str, Any], key: str) -> list[str]:
    """An input that is a list, or one value."""
    value = env.get(key) or []
    return [str(line) for line in value] if isinstance(value, list) else [str(value)]


def commands(env: dict[str, Any]) -> list[str]:
    """All commands in their order; ``;;`` in one of cm is a comma there.

    Raises Error without any.
    """
    keys = ("CM_SSH_PRE_RUN_CMDS", "CM_SSH_RUN_COMMANDS", "CM_SSH_POST_RUN_CMDS")
    lines = [line for key in keys for line in listed(env, key)]
    if not lines:
        raise Error("needs-input", "no command is given", hint='write --run_cmds,="hostname"')
    return [line.replace(";;", ",") if "cm " in line else line for line in lines]


def run(words: Sequence[str], lines: Sequence[str], shell: str) -> None:
    """Run ``lines`` on the remote machine and print their output at once."""
    text = " ; ".join(lines)
    command = f"{shell} -c {shlex.quote(text)}" if shell else text
    process = subprocess.Popen(
        [*words, command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        print(line, end="", flush=True)
        said = [*said[-20:], line]
    check(words, process.wait(), "".join(said))


def check(words: Sequence[str], status: int, said: str) -> None:
    """Raise what went wrong: the connection, or what ran."""
    if status == ssh.UNREACHED:
        raise ssh.connection_error(words[-1], said.encode())
    if status:
        raise Error(
            "script-failed",
            f"{words[-1]}: the commands ended with status {status}",
            context=said.strip().splitlines()[-6:],
        )


def send(words: Sequence[str], path: Path, target: str) -> None:
    """Bring a file or a folder. Raises Error when it is missing or cannot be copied."""
    if not path.exists():
        raise Error("file-not-found", f"{path} does not exist", hint="check --files_to_copy")
    folder = shlex.quote(target.removeprefix("~/") or ".")
    with tempfile.TemporaryFile() as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(path, path.resolve().name)
        packed.seek(0)
        done = ssh.call_with_stream(
            [*words, f"mkdir -p {folder} && tar -xf - -C {folder}"], b"", packed
        )
    check(words, done.returncode, (done.stderr + done.stdout).decode("utf-8", "replace"))
    print(f"brought: {path} to {target}")


def fetch(words: Sequence[str], path: str, target: Path) -> None:
    """Fetch a file or a folder; nothing is written outside ``target``."""
    folder, name = os.path.split(path.removeprefix("~/").rstrip("/"))
    command = f"tar -cf - -C {shlex.quote(folder or '.')} -- {shlex.quote(name)}"
    done = ssh.call_with_stream([*words, command], b"", io.BytesIO())
    check(words, done.returncode, done.stderr.decode("utf-8", "replace"))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "fetched.tar"
        archive.write_bytes(done.stdout)
        archives.extract(archive, target)
    print(f"fetched: {path} to {target}")
