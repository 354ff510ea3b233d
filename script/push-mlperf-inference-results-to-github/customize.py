"""Push a tree; git's own helpers or CM_MLPERF_RESULTS_GIT_TOKEN give the credentials."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cmbench.errors import Error


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say what was pushed."""
    from mlperf.submission import checks, inputs, layouts, push, steps, verdict

    env = i["env"]
    tree = inputs.tree(env)
    url = env.get("CM_MLPERF_RESULTS_GIT_REPO_URL") or ""
    if not url:
        raise Error("needs-input", "no repository is named", hint="give --repo_url=URL")
    order = push.TreePush(
        layouts.SubmissionTree(tree, layouts.of_round(steps.round_of(tree))),
        url,
        env.get("CM_GIT_BRANCH") or "",
        env["CM_MLPERF_RESULTS_REPO_COMMIT_MESSAGE"],
        inputs.is_set(env, "CM_MLPERF_RESULTS_DRY_RUN"),
    )
    judged = verdict.judge(checks.check(order.tree))
    if not judged.submittable:
        print(f"warning: this tree would be refused: {judged.line}")
    done = push.push(order)
    print(words(done))
    i["state"]["cm-mlperf-inference-push"] = asdict(done)
    return {"return": 0}


def words(done: Any) -> str:
    """What became of the push, in one line."""
    if not done.commit:
        return f"nothing to push: branch {done.branch} holds these results already"
    what = f"commit {done.commit[:12]} with {done.files} files"
    if not done.sent:
        return f"dry run: {what} would go to branch {done.branch}; nothing was pushed"
    return f"pushed {what} to branch {done.branch}"
