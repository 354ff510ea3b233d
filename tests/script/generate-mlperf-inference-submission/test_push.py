"""Pushing a tree: against real git repositories on this disk."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

import submission_lab as lab
from mlperf.submission import push
from mlperf.submission.errors import SubmissionError


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setattr(push, "WAIT_S", 0.05)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with one commit of somebody else."""
    bare, first = tmp_path / "remote.git", tmp_path / "first"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(bare)], check=True)
    subprocess.run(
        ["git", "clone", "--quiet", str(bare), str(first)], check=True, capture_output=True
    )
    git(first, "checkout", "--quiet", "-B", "main")
    lab.put(first / "closed/Other/README.md", "# Other\n")
    git(first, "add", ".")
    git(first, "commit", "--quiet", "-m", "first")
    git(first, "push", "--quiet", "origin", "main")
    return bare


@pytest.fixture
def tree(tmp_path: Path) -> lab.SubmissionTree:
    return lab.make(tmp_path / "tree")


def order(tree: lab.SubmissionTree, remote: Path, **changes: object) -> push.TreePush:
    values: dict[str, object] = {"branch": "", "message": "Add results", **changes}
    return push.TreePush(tree, f"file://{remote}", **values)  # type: ignore[arg-type]


def files(remote: Path, branch: str = "main") -> list[str]:
    return git(remote, "ls-tree", "-r", "--name-only", branch).splitlines()


def test_results_arrive_beside_those_of_others(tree: lab.SubmissionTree, remote: Path) -> None:
    done = push.push(order(tree, remote))
    assert done.sent
    assert done.commit == git(remote, "rev-parse", "main")
    here = {p.relative_to(tree.root).as_posix() for p in tree.root.rglob("*") if p.is_file()}
    assert set(files(remote)) == here | {"closed/Other/README.md"}
    assert done.files == len(here)


def test_a_second_call_pushes_nothing(tree: lab.SubmissionTree, remote: Path) -> None:
    first = push.push(order(tree, remote))
    again = push.push(order(tree, remote))
    assert (again.commit, again.sent) == ("", False)
    assert git(remote, "rev-parse", "main") == first.commit


def test_files_that_are_gone_from_a_result_go(tree: lab.SubmissionTree, remote: Path) -> None:
    push.push(order(tree, remote))
    gone = next(tree.root.rglob("TEST04/verify_performance.txt"))
    gone.unlink()
    push.push(order(tree, remote))
    assert gone.relative_to(tree.root).as_posix() not in files(remote)


def test_dry_run_pushes_nothing(tree: lab.SubmissionTree, remote: Path) -> None:
    before = git(remote, "rev-parse", "main")
    done = push.push(order(tree, remote, dry_run=True))
    assert done.commit
    assert not done.sent
    assert git(remote, "rev-parse", "main") == before


def test_a_new_branch_is_made(tree: lab.SubmissionTree, remote: Path) -> None:
    assert push.push(order(tree, remote, branch="mine")).branch == "mine"
    assert "closed/Tester/calibration.md" in files(remote, "mine")
    assert files(remote) == ["closed/Other/README.md"]
    assert push.push(order(tree, remote, branch="mine")).commit == ""


def test_an_empty_repository_is_filled(tree: lab.SubmissionTree, tmp_path: Path) -> None:
    bare = tmp_path / "empty.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(bare)], check=True)
    assert push.push(order(tree, bare)).sent
    assert "closed/Tester/calibration.md" in files(bare)


def test_many_push_at_once_and_nothing_is_lost(remote: Path, tmp_path: Path) -> None:
    trees = []
    for name in ("A", "B", "C"):
        made = lab.make(tmp_path / name)
        os.rename(made.root / "closed/Tester", made.root / "closed" / name)
        trees.append(made)
    threads = [threading.Thread(target=push.push, args=(order(t, remote),)) for t in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = files(remote)
    for name in ("A", "B", "C", "Other"):
        assert any(file.startswith(f"closed/{name}/") for file in found), name
    assert int(git(remote, "rev-list", "--count", "main")) == 4


def test_others_were_faster(
    tree: lab.SubmissionTree, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody pushes between the clone and the push."""
    genuine = push.Git.push
    calls: list[str] = []

    def late(self: push.Git, branch: str) -> bool:
        if not calls:
            clone = tmp_path / "rival"
            git(tmp_path, "clone", "--quiet", str(remote), str(clone))
            lab.put(clone / "closed/Rival/README.md", "# Rival\n")
            git(clone, "add", ".")
            git(clone, "commit", "--quiet", "-m", "rival")
            git(clone, "push", "--quiet", "origin", "main")
        calls.append(branch)
        return genuine(self, branch)

    monkeypatch.setattr(push.Git, "push", late)
    assert push.push(order(tree, remote)).sent
    assert len(calls) == 2
    found = files(remote)
    assert "closed/Rival/README.md" in found
    assert "closed/Tester/calibration.md" in found


def test_a_hook_that_refuses_is_reported(tree: lab.SubmissionTree, remote: Path) -> None:
    hook = remote / "hooks" / "pre-receive"
    lab.put(hook, "#!/bin/sh\necho 'only on Mondays' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(SubmissionError, match=r"a rule of its own.*only on Mondays") as caught:
        push.push(order(tree, remote))
    assert "--branch=NAME" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "what", "hint"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "reached", "network"),
        ("ssh: connect to host x port 22: Connection timed out", "reached", "network"),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", "rights", ""),
        (
            "fatal: unable to access 'https://x/': The requested URL returned error: 403",
            "rights",
            "",
        ),
        ("git@x: Permission denied (publickey).", "rights", push.TOKEN),
        ("remote: Repository not found.\nfatal: repository 'https://x/' not found", "no such", ""),
        ("error: file write error: No space left on device", "disk is full", "TMPDIR"),
        ("! [remote rejected] main -> main (protected branch hook declined)", "rule", "--branch"),
        ("fatal: something else", "something else", "--repo_url"),
    ],
)
def test_git_s_words_are_told_as_causes(said: str, what: str, hint: str) -> None:
    error = push.Git(Path(), "https://x/r.git")._error("push", said)
    assert what in str(error)
    assert hint in error.hint
    assert "{token}" not in error.hint


def test_a_remote_that_is_not_there(tree: lab.SubmissionTree, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"git clone failed.*no such repository"):
        push.push(order(tree, tmp_path / "nowhere.git"))


def test_secrets_in_the_address_never_show(tree: lab.SubmissionTree) -> None:
    url = "http://me:hunter2@127.0.0.1:9/results.git"
    with pytest.raises(SubmissionError) as caught:
        push.push(push.TreePush(tree, url, "", "Add results"))
    assert "hunter2" not in str(caught.value)
    assert "***@127.0.0.1" in str(caught.value)
    assert "the host cannot be reached" in str(caught.value)


def test_a_token_reaches_git_by_its_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    env = push._environment({push.TOKEN: "s3cret", "PATH": "/bin"})
    assert push.TOKEN not in env
    assert "s3cret" not in "".join(env.values())
    assert env["GIT_CONFIG_KEY_0"] == "http.extraHeader"


def test_without_a_name_git_says_what_to_do(
    tree: lab.SubmissionTree, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    with pytest.raises(SubmissionError, match="git does not know who commits") as caught:
        push.push(order(tree, remote))
    assert "git config --global user.name" in caught.value.hint
