"""Pass the inputs to the program as its options; or copy the program to a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cmbench
from cmbench.errors import Error
from cmbench.lib.import_closure import import_closure
from cmbench.lib.programs import run_program
from serving.bench import step
from serving.bench.options import OPTIONS, read

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
    step.hand_over(env, PREFIX, list(arguments(env, own)), read)
    done = run_program(i, "measure")
    step.take_answer(env, PREFIX, ("rate", "p99_ms"))
    return done


def arguments(env: Mapping[str, Any], own: bool = False) -> Iterator[str]:
    """The options of the program, out of the inputs that were given or what steps before say."""
    grpc = env.get(f"{PREFIX}PROTOCOL") == "grpc"
    defaults = {"model_name": env.get("CM_TRITON_MODEL_NAME")}
    if not own:
        defaults["url"] = env.get("CM_TRITON_SERVER_GRPC_URL" if grpc else "CM_TRITON_SERVER_URL")
    yield from step.arguments(OPTIONS, env, PREFIX, {"input": "random zero"}, defaults)


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
