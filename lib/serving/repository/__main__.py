"""The program: write the model of a JSON request, and the answer to the request's path."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem

from . import planner, writing


def main(words: list[str]) -> int:
    """Write one model; return 0 also for a refusal, which is in the answer."""
    wanted: Mapping[str, Any] = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    try:
        plan, repository = planner.plan(wanted)
        repository.mkdir(parents=True, exist_ok=True)
        written = writing.write(plan, repository)
        answer: dict[str, Any] = {
            "repository": str(repository),
            "name": plan.name,
            "sha256": written.sha256,
            "label": written.label,
        }
        print(f"{written.folder}: {written.label}, {plan.instances} x {plan.kind}", flush=True)
        for note in filter(None, (plan.stand_in, *written.notes)):
            print(f"note: {note}", flush=True)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}"
        answer = Problem("not-writable", text, "choose another folder").answer()
    except Problem as error:
        answer = error.answer()
    Path(wanted["answer"]).write_text(json.dumps(answer, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
