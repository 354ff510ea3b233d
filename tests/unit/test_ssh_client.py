"""Names of hosts as people write them, and where sockets of connections are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import ssh
from support import HANG_S


@pytest.mark.parametrize(
    ("typed", "host", "port", "user"),
    [
        ("alpha", "alpha", "22", ""),
        ("me@alpha:2222", "alpha", "2222", "me"),
        ("alpha.lab.org:2222", "alpha.lab.org", "2222", ""),
        ("::1", "::1", "22", ""),
        ("[::1]", "::1", "22", ""),
        ("me@[fe80::1]:2200", "fe80::1", "2200", "me"),
        ("fe80::1%lo", "fe80::1%lo", "22", ""),
        ("me@fe80::1", "fe80::1", "22", "me"),
    ],
)
@pytest.mark.skipif(shutil.which("ssh") is None, reason="apt-get install openssh-client")
def test_the_client_understands_every_way_to_write_a_host(
    typed: str, host: str, port: str, user: str
) -> None:
    ssh.check_name(typed)
    words = ["ssh", "-F", "/dev/null", "-G", *ssh.address(typed)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    found = dict(line.partition(" ")[::2] for line in told.splitlines())
    assert (found["hostname"], found["port"]) == (host, port)
    assert not user or found["user"] == user


@pytest.mark.parametrize(
    "typed", ["", "-oProxyCommand=x", "a b", "a;b", "me@-x", "a/b", "[::1", "$x"]
)
def test_what_is_no_host_is_refused(typed: str) -> None:
    with pytest.raises(Error, match="is not a host"):
        ssh.check_name(typed)


@pytest.mark.parametrize("base", ["/nowhere/run", "/proc", "x" * 60])
def test_sockets_have_a_place_where_that_of_the_session_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str
) -> None:
    long = tmp_path / base if base.startswith("x") else Path(base)
    if base.startswith("x"):
        long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    found = ssh._folder.__wrapped__()
    assert os.access(found, os.W_OK)
    assert not found.startswith(str(long))
    assert len(found) < 60


@pytest.mark.parametrize("name", ["my tmp", "t%d", "it's"])
def test_sockets_are_in_no_folder_whose_name_the_client_would_take_apart(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    # A short path, as that of a test is too long for a socket.
    with tempfile.TemporaryDirectory(prefix=name, dir="/tmp") as base:
        monkeypatch.setattr(tempfile, "tempdir", base)
        ssh._folder.cache_clear()
        try:
            assert name not in ssh._folder()
        finally:
            ssh._folder.cache_clear()


def test_a_command_line_of_the_user_is_read_as_by_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMBENCH_SSH", "ssh -F it's")
    with pytest.raises(Error, match="No closing quotation"):
        ssh.client()
    monkeypatch.setenv("CMBENCH_SSH", " ")
    assert ssh.client()[0] == "ssh"
    monkeypatch.setenv("CMBENCH_SSH", "ssh -F 'my file'")
    assert ssh.client()[:3] == ["ssh", "-F", "my file"]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="apt-get install openssh-client")
@pytest.mark.parametrize("options", [(), ("-p", "2200", "-i", "/my key")])
@pytest.mark.parametrize("host", ["alpha", "me@alpha:2222", "me@[fe80::1]:2200", "me@fe80::1"])
@pytest.mark.parametrize("stderr", [*ssh._CAUSES, "something else"])
def test_commands_of_hints_can_be_typed(host: str, options: tuple[str, ...], stderr: str) -> None:
    hint = ssh.connection_error(host, stderr.encode(), options).hint
    assert not re.search(r"ssh\S* [^'\n]*:2222", hint)
    found = re.search(r"(?:^|: )(ssh .*)$", hint)
    if found is not None:
        # The client itself reads it, and would go where we go.
        words = shlex.split(found[1])
        assert resolved(words) == resolved(["ssh", *options, *ssh.address(host)])


def resolved(words: list[str]) -> list[str]:
    """The host, port, user and keys that a command line of ``ssh`` means."""
    words = ["ssh", "-F", "/dev/null", "-G", *words[1:]]
    told = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    wanted = ("hostname ", "port ", "user ", "identityfile ")
    return [line for line in told.splitlines() if line.startswith(wanted)]
