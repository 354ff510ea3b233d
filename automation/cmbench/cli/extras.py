"""What the flags of the first engines ask for at the end of a run: lines and files.

The names of the files are theirs, for programs that read them.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from shutil import copytree
from typing import Any

from cmbench.api.running import FinishedRun
from cmbench.cli.reply import Answer


def extras(ran: FinishedRun, answer: Answer) -> list[str]:
    """Do what the modes of the request ask for with its result; the lines for the console.

    ``print_deps`` is also in the ``new_state`` of ``answer``, where scripts look for it.
    """
    modes = ran.request.request.modes
    return [line for mode, do in _DO.items() if mode in modes for line in do(ran, answer)]


def _print_deps(ran: FinishedRun, answer: Answer) -> Iterator[str]:
    commands = [ran.request.script.dialect.command + tags for tags in ran.dependency_tags]
    answer["new_state"] = {**answer["new_state"], "print_deps": commands}
    yield from commands


def _print_versions(ran: FinishedRun, _: Answer) -> Iterator[str]:
    for step in ran.steps:
        if step["version"]:
            yield f"{step['step']}: {step['version']}"


def _dump_version_info(ran: FinishedRun, _: Answer) -> Iterator[str]:
    for name in (f"{_name(ran)}-run-script-versions.json", "version_info.json"):
        _write(name, _versions(ran))
        yield f"versions: {os.path.abspath(name)}"


def _versions(ran: FinishedRun) -> list[dict[str, Any]]:
    rows = ran.request.workspace.index.by_uid
    return [
        {
            step["step"]: {
                "script_uid": step["script_uid"],
                "script_alias": step["script"],
                "script_tags": ",".join(
                    sorted(t for r in rows(step["script"])[:1] for t in r.tags)
                ),
                "script_variations": ",".join(step["variations"]),
                "version": step["version"],
                "parent": step["chain"][-2] if len(step["chain"]) > 1 else None,
            }
        }
        for step in ran.steps
    ]


def _print_readme(ran: FinishedRun, _: Answer) -> Iterator[str]:
    name = f"README-{_name(ran)}.md"
    _write(name, _readme(ran))
    yield f"commands: {os.path.abspath(name)}"


def _readme(ran: FinishedRun) -> str:
    own = shlex.join(map(ran.secrets.word, ran.request.command))
    below = "\n".join(ran.request.script.dialect.command + tags for tags in ran.dependency_tags)
    return f"# {ran.request.script.alias}\n\nThe command:\n\n```bash\n{own}\n```\n" + (
        f"\nWhat it depends on, each by itself:\n\n```bash\n{below}\n```\n" if below else ""
    )


def _repro(ran: FinishedRun, answer: Answer) -> Iterator[str]:
    name, inputs = _name(ran), ran.request.request.inputs
    folder = os.path.abspath(str(inputs.get("repro_dir") or f"{name}-repro"))
    os.makedirs(folder, exist_ok=True)
    start = os.path.join(folder, str(inputs.get("repro_prefix") or f"{name}-run-script"))
    parts = {
        "info": {"command": ran.secrets.data(list(ran.request.command)), "record": ran.record},
        "input": ran.secrets.data(ran.request.call_data),
        "output": {"return": 0, **ran.secrets.data(answer)},
        "run-state": {"version_info": _versions(ran), "deps": list(ran.dependency_tags)},
    }
    for part, data in parts.items():
        _write(f"{start}-{part}.json", data)
    _write(f"{start}-README-{name}.md", _readme(ran))
    _recipe(ran, folder)
    _write(f"{name}-output.json", {**parts, "state": parts["run-state"]})
    yield f"the call and its result: {folder}"


def _recipe(ran: FinishedRun, folder: str) -> None:
    """The example of a container that the repository of the script brings, with the commands."""
    root = os.path.dirname(os.path.dirname(ran.request.script.path))
    example = os.path.join(root, "automation", "script", "docker_repro_example")
    if os.path.isdir(example):
        copytree(example, folder, dirs_exist_ok=True)
        own = shlex.join(map(ran.secrets.word, ran.request.command))
        start = ran.request.script.dialect.command
        with open(os.path.join(folder, "ubuntu-23.04.Dockerfile"), "a", encoding="utf-8") as file:
            file.writelines([*(f"# {start}{tags}\n" for tags in ran.dependency_tags), f"{own}\n"])


def _time(ran: FinishedRun, _: Answer) -> Iterator[str]:
    tags = ",".join(ran.request.script.tags)
    yield f"running time of {tags}: {ran.steps[-1]['seconds']:.2f} s"


def _name(ran: FinishedRun) -> str:
    return ran.request.script.dialect.prefix.rstrip("_").lower()


def _write(path: str, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data, indent=2, default=str) + "\n"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


_DO: dict[str, Callable[[FinishedRun, Answer], Iterator[str]]] = {
    "print_deps": _print_deps,
    "print_versions": _print_versions,
    "dump_version_info": _dump_version_info,
    "print_readme": _print_readme,
    "repro": _repro,
    "time": _time,
}
