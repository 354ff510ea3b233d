"""Pushing a tree to a git repository: clone, copy, commit, rebase on conflict, push.

Git's own helpers give the credentials. A token in an environment variable is passed to git
through its environment only: it is in no command line, no file, no log.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import git_words
from .errors import SubmissionError
from .layouts import DIVISIONS, SubmissionTree

TOKEN = "CM_MLPERF_RESULTS_GIT_TOKEN"
ATTEMPTS = 5
WAIT_S = 1.0
LONGEST_S = 1800
# How git says that it has no name or address of the committer.
SECRET = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class TreePush:
    """A tree, and the repository and branch to push it to."""

    tree: SubmissionTree
    url: str
    branch: str
    message: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PushResult:
    """The commit and the number of changed files; no commit where nothing has changed."""

    commit: str
    files: int
    branch: str
    sent: bool


def push(order: TreePush) -> PushResult:
    """Do it; a second call after an interruption finishes the work and makes nothing twice.

    Raises SubmissionError with git's own words when the remote cannot be reached or refuses.
    """
    if not order.tree.submitters():
        raise SubmissionError(
            f"{order.tree.root} is not a submission tree", "check --submission_dir"
        )
    if not order.message.strip():
        raise SubmissionError("the commit message is empty", "give --commit_message=TEXT")
    with tempfile.TemporaryDirectory(prefix="cmbench-push-") as scratch:
        clone = Path(scratch) / "repository"
        git = Git(clone, order.url)
        git.clone(order.branch)
        branch = order.branch or git.branch()
        for attempt in range(ATTEMPTS):
            done = _attempt(order, clone, git, branch)
            if done is not None:
                return done
            if attempt + 1 < ATTEMPTS:
                time.sleep(WAIT_S * 2**attempt)
                git.take_over(branch)
        raise SubmissionError(
            f"others pushed to {git.shown} at the same time, {ATTEMPTS} times in a row",
            "run the same command again",
            "push",
        )


def _attempt(order: TreePush, clone: Path, git: Git, branch: str) -> PushResult | None:
    """Commit the tree and push it; None when others were faster."""
    copy(order.tree, clone)
    git.run("add", "--all", *_pathspec(clone))
    changed = git.run("diff", "--cached", "--name-only").splitlines()
    if not changed and not git.ahead(branch):
        return PushResult("", 0, branch, False)
    if changed:
        git.run("commit", "--quiet", "--message", order.message)
    commit = git.run("rev-parse", "HEAD").strip()
    files = len(git.run("show", "--name-only", "--format=", "HEAD").split("\n")) - 1
    if order.dry_run:
        return PushResult(commit, files, branch, False)
    return PushResult(commit, files, branch, True) if git.push(branch) else None


def copy(tree: SubmissionTree, clone: Path) -> None:
    """Bring the folders of every submitter in ``tree`` into a clone; others stay as they are."""
    for division, submitter, root in tree.submitters():
        target = clone / division / submitter
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted(root.iterdir()):
            if path.is_file():
                shutil.copyfile(path, target / path.name)
            else:
                _replace(path, target / path.name)


def _replace(folder: Path, target: Path) -> None:
    """Copy the contents of ``folder``; its folders replace those of the same name."""
    for inner in sorted(folder.iterdir()):
        place = target / inner.name
        if inner.is_dir():
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(inner, place)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(inner, place)


def _pathspec(clone: Path) -> list[str]:
    return ["--", *(name for name in DIVISIONS if (clone / name).is_dir())]


class Git:
    """Git in one clone; its output never shows a secret."""

    def __init__(self, clone: Path, url: str) -> None:
        self._clone = clone
        self._url = url
        self.shown = SECRET.sub("***@", url)

    def clone(self, branch: str) -> None:
        """Get the remote; a branch that it does not have yet starts from its default one."""
        words = ["clone", "--quiet", "--depth", "1", "--no-single-branch"]
        self._git([*words, "--", self._url, str(self._clone)], None)
        if not branch:
            return
        if self._try("rev-parse", "--verify", "--quiet", f"origin/{branch}"):
            self.run("checkout", "--quiet", "-B", branch, f"origin/{branch}")
        else:
            self.run("checkout", "--quiet", "-B", branch)

    def branch(self) -> str:
        """The branch that is checked out, also where it has no commit yet."""
        return self.run("symbolic-ref", "--short", "HEAD").strip()

    def ahead(self, branch: str) -> bool:
        """Whether commits wait to be pushed."""
        if not self._try("rev-parse", "--verify", "--quiet", "HEAD"):
            return False
        if not self._try("rev-parse", "--verify", "--quiet", f"origin/{branch}"):
            return True
        return bool(self.run("rev-list", f"origin/{branch}..HEAD").strip())

    def push(self, branch: str) -> bool:
        """Push; false when others were faster."""
        done = self._process(
            ["push", "--quiet", "origin", f"HEAD:refs/heads/{branch}"], self._clone
        )
        if done.returncode == 0:
            return True
        said = self._hidden(done.stderr)
        if re.search(r"\[rejected\]|non-fast-forward|fetch first|cannot lock ref", said):
            return False
        raise self._error("push", said)

    def take_over(self, branch: str) -> None:
        """Go on from what others have pushed; the tree is copied again on top of it."""
        self.run("fetch", "--quiet", "origin")
        self.run("reset", "--quiet", "--hard", f"origin/{branch}")

    def run(self, *words: str) -> str:
        """One git command in the clone; raises SubmissionError when it fails."""
        return self._git(list(words), self._clone)

    def _try(self, *words: str) -> bool:
        return self._process(list(words), self._clone).returncode == 0

    def _git(self, words: list[str], folder: Path | None) -> str:
        done = self._process(words, folder)
        if done.returncode != 0:
            raise self._error(words[0], self._hidden(done.stderr))
        return done.stdout

    def _process(self, words: list[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["git", *words],
                cwd=folder,
                env=_environment(os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise SubmissionError("git is not installed", "install git", "no-tool") from error
        except subprocess.TimeoutExpired as error:
            raise SubmissionError(f"git {words[0]} took too long", code="push") from error

    def _hidden(self, text: str) -> str:
        token = os.environ.get(TOKEN, "")
        shown = SECRET.sub("***@", text)
        return shown.replace(token, "***") if token else shown

    def _error(self, verb: str, said: str) -> SubmissionError:
        cause, summary = git_words.cause(said), git_words.telling(said)
        what = f"git {verb} failed for {self.shown}: "
        if cause is None:
            return SubmissionError(what + summary, "check --repo_url and your rights", "push")
        hint = cause.hint.format(token=f"the environment variable {TOKEN}")
        return SubmissionError(f"{what}{cause.what} ({summary})", hint, "push")


def _environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Git without questions; a token becomes a header that only this process knows."""
    env = {**outer, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    token = outer.get(TOKEN, "")
    if token:
        import base64

        word = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        env["GIT_CONFIG_COUNT"] = "1"
        env["GIT_CONFIG_KEY_0"] = "http.extraHeader"
        env["GIT_CONFIG_VALUE_0"] = f"Authorization: Basic {word}"
    env.pop(TOKEN, None)
    return env
