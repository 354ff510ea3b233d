"""Pass the inputs to the program as its options; or copy the program to a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import cmbench
from cmbench.errors import Error
from cmbench.lib.import_closure import import_closure
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from common.problems import raise_failure
from serving.bench.options import OPTIONS, BenchOption, read

PREFIX = "CM_TRITON_BENCH_"
NAME = "triton-http-client.py"
LIBRARY = "triton-http-client-lib"
LAUNCHER = f'''#!/usr/bin/env python3
"""Ask a model of Triton: is it there and right, and how fast is it? Needs Python 3.10 or newer."""
import os
import sys

if sys.version_info < (3, 10):
    sys.exit("{NAME} needs Python 3.10 or newer; this is %d.%d" % sys.version_info[:2])
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "{LIBRARY}"))
try:
    from serving.bench.session import main
except ImportError as error:
    sys.exit("{NAME} needs the folder {LIBRARY} beside it: %s" % error)
sys.exit(main(sys.argv[1:]))
'''


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if env.get(f"{PREFIX}INSTALL_DIR"):
        program = install(Path(env[f"{PREFIX}INSTALL_DIR"]).expanduser().absolute())
        env[f"{PREFIX}PROGRAM"] = str(program)
        print(f"installed: {program}")
        return {"return": 0}
    own = env.get(f"{PREFIX}OWN_SERVER") == "yes"
    if own and not env.get("CM_TRITON_MODEL_REPOSITORY"):
        hint = "add --model_repository=/folder, or _resnet50,_tiny to the tags"
        raise Error("needs-input", "no folder of models is named", hint=hint)
    env[f"{PREFIX}MODULE"] = "serving.bench.served" if own else "serving.bench"
    words = list(arguments(env, own))
    read(words)  # What the program would not understand fails before anything is started.
    path = os.path.join(env["CM_TMP_RUN_DIR"], "arguments")
    # A header may be a secret: only this user may read it, and the program removes it.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("".join(f"{word}\0" for word in words))
    env[f"{PREFIX}ARGUMENTS"] = path
    env[f"{PREFIX}ANSWER"] = os.path.join(env["CM_TMP_RUN_DIR"], "answer.json")
    done = run_program(i, "measure")
    tell(env)
    return done


def tell(env: MutableMapping[str, Any]) -> None:
    """Export the figures; raise Problem where the program has failed."""
    with open(env[f"{PREFIX}ANSWER"], encoding="utf-8") as file:
        answer = json.load(file)
    raise_failure(answer)
    for name in ("rate", "p99_ms"):
        if answer.get(name) is not None:
            env[f"{PREFIX}RESULT_{name.upper()}"] = f"{answer[name]:.6g}"


def arguments(env: Mapping[str, Any], own: bool = False) -> Iterator[str]:
    """The options of the program, out of the inputs that were given or what steps before say."""
    grpc = env.get(f"{PREFIX}PROTOCOL") == "grpc"
    known = {"model_name": env.get("CM_TRITON_MODEL_NAME")}
    if not own:
        known["url"] = env.get("CM_TRITON_SERVER_GRPC_URL" if grpc else "CM_TRITON_SERVER_URL")
    for option in OPTIONS:
        value = env.get(f"{PREFIX}{option.name.upper()}") or known.get(option.name)
        if value not in (None, "", []):
            yield from _words(option, value)


def _words(option: BenchOption, value: Any) -> Iterator[str]:
    if option.takes == "yes":
        if is_yes(value):
            yield f"--{option.name}"
        return
    for each in value if isinstance(value, list) else [value]:
        text = str(each)
        if option.name == "input" and text not in ("random", "zero"):
            text = os.path.abspath(os.path.expanduser(text))
        yield f"--{option.name}={text}"


def install(folder: Path) -> Path:
    """Copy the program and its modules into ``folder``; return the path of the program."""
    library = folder / LIBRARY
    part = folder / f"{LIBRARY}.{os.getpid()}.part"
    old = folder / f"{LIBRARY}.{os.getpid()}.old"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in import_closure(cmbench.LIBRARIES, "serving.bench"):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(os.path.join(cmbench.LIBRARIES, name), part / name)
        if library.exists():
            library.rename(old)
        part.rename(library)
        launcher = folder / f"{NAME}.{os.getpid()}.part"
        launcher.write_text(LAUNCHER, encoding="utf-8")
        launcher.chmod(0o755)
        launcher.replace(folder / NAME)
    except OSError as error:
        raise Error("not-writable", f"{folder}: {error.strerror}",
                    hint="choose another --install_dir") from error  # fmt: skip
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder / NAME
