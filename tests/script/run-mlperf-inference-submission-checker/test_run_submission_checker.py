"""The checker as a user starts it."""

from __future__ import annotations

import submission_lab as lab
from support import Home

CHECK = ("run", "script", "--tags=run,mlperf,inference,submission,checker", "--quiet")


def test_a_whole_tree_is_accepted(home: Home) -> None:
    source = lab.checkout(home.path / "inference")
    tree = lab.make(home.path / "tree")
    packed = home.path / "tree.tar.gz"
    words = (f"--submission_dir={tree.root}", f"--inference_src={source}", f"--output_tar={packed}")
    done = home.cm(*CHECK, *words).ok()
    assert "verdict: submittable by all checks that were made" in done.stdout
    assert "submission_checker: accepted" in done.stdout
    assert packed.is_file()


def test_a_broken_rule_fails_the_command(home: Home) -> None:
    tree = lab.make(home.path / "tree")
    next(tree.root.rglob("TEST04/verify_performance.txt")).unlink()
    done = home.cm(*CHECK, f"--submission_dir={tree.root}", "--official=no")
    assert done.status == 1
    assert "compliance.files" in done.stdout + done.stderr
    assert "to mend: make the tests again" in done.stdout
    assert "official" not in done.stdout.split("verdict")[0]


def test_without_network_and_checkout_the_way_out_is_named(home: Home) -> None:
    tree = lab.make(home.path / "tree")
    words = (f"--submission_dir={tree.root}", f"--adr.inference-src.env.CM_GIT_URL={home.path}/no")
    done = home.cm(*CHECK, *words)
    assert done.status == 1
    assert "git fetch failed" in done.stdout + done.stderr
    assert "--inference_src=FOLDER" in done.stdout + done.stderr
