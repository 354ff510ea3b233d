"""The work: a folder next to the artefact, the SDK's process, one rename at the end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aws_neuron import artifact
from aws_neuron.artifact import ArtefactError, ArtefactTensor, NeuronArtefact, NeuronCompilation
from common.files import sha256
from common.problems import Problem

from .compile_request import CompileRequest

PROGRAM = Path(__file__).resolve().with_name("sdk") / "compile.py"
LAST_LINES = 12
CPU = "cpu"
NO_PACKAGE = ("ModuleNotFoundError", "ImportError")
# PyTorch ends by a signal, behind forty frames, where the disk is full.
FULL = ("No space left on device", "Disk quota exceeded", "failed writing file", "unexpected pos ")


def make(wanted: CompileRequest) -> Path:
    """Compile a model unless its artefact exists; return the path.

    Raises Problem. Whatever happens on the way, nothing half-made is at that path, and of two
    at once the second waits.
    """
    path = wanted.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"cannot make the folder {path.parent}: {error.strerror}"
        raise Problem("not-writable", text, "name another one: --dir=/folder") from error
    with locked(path.parent):
        if is_compiled(wanted):
            print(f"{path} is there already, of the same model", flush=True)
            return path
        refuse_other(wanted)
        work = path.with_name(f".{path.name}.part")
        # What a killed one has left: it holds the lock no more.
        shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir()
            place(wanted, path, work)
        except OSError as error:
            raise _failed_file(error, path) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """This process alone compiles into the folder; a file system without locks has none."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another one that compiles into {folder}", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            print(f"{folder} cannot be locked ({error.strerror}): start only one at once")
        yield
    finally:
        os.close(handle)


def is_compiled(wanted: CompileRequest) -> bool:
    """Return whether the same artefact exists and is undamaged."""
    try:
        neuron = artifact.read(wanted.path).neuron
    except ArtefactError:
        return False
    same = (neuron.target, neuron.model.sha256, neuron.compiler_flags, neuron.batch_size)
    return same == (
        wanted.target,
        wanted.source.sha256,
        wanted.compiler_flags,
        wanted.batch_size,
    )


def refuse_other(wanted: CompileRequest) -> None:
    """Raise Problem where one for the processor would replace one for a device.

    Targets share names, and what took an hour to compile is not for a trial to replace.
    """
    if wanted.target != CPU:
        return
    try:
        target = artifact.read(wanted.path, verify_digest=False).neuron.target
    except ArtefactError:
        return
    if target != CPU:
        text = f"{wanted.path} is for {target}, and one for {wanted.target} has the same name"
        hint = "name another folder: --dir=/folder (of a run: --adr.neuron-model.dir=/folder)"
        raise Problem("bad-value", text, hint)


def place(wanted: CompileRequest, path: Path, work: Path) -> None:
    """Compile in the folder ``work``, look at what came out, and give it its name.

    Raises Problem when the compiler leaves no artefact.
    """
    made, answer = work / path.name, work / "answer.json"
    request = work / "request.json"
    request.write_text(json.dumps(request_of(wanted, work, made, answer)), encoding="utf-8")
    run(wanted, request)
    if not made.is_file() or not answer.is_file():
        raise Problem("script-failed", f"{wanted.python} ended well and made no {path.name}")
    artefact = described(wanted, made, json.loads(answer.read_text(encoding="utf-8")))
    # A sidecar of the one before would say of the new one that it is damaged: never the reverse.
    os.replace(made, path)
    artifact.write(path, artefact)


def request_of(wanted: CompileRequest, work: Path, made: Path, answer: Path) -> dict[str, Any]:
    """Return the request to the program in the SDK's Python."""
    facts = wanted.facts
    inputs = [{"dtype": t.dtype, "shape": list(t.shape)} for t in wanted.inputs]
    return {
        "answer": str(answer),
        "architecture": facts.get("architecture", ""),
        "artefact": str(made),
        "batch_size": wanted.batch_size,
        "benchmark": wanted.benchmark,
        "compiler_flags": list(wanted.compiler_flags),
        "device": os.path.exists("/dev/neuron0"),
        "dynamic_batch": wanted.dynamic_batch,
        "inputs": inputs,
        "model": str(wanted.folder / facts["file"]),
        "output": wanted.scores,
        # A network of transformers takes numbers of 32 bits as they are.
        "widen": not facts.get("architecture"),
        "target": wanted.target,
        "workdir": str(work / "compiler"),
    }


def run(wanted: CompileRequest, request: Path) -> None:
    """Run the program, its lines shown as they come; raises Problem where it fails.

    It has this process's end of a pipe as its input: it ends with this one, however that ends.
    """
    last: deque[str] = deque(maxlen=LAST_LINES)
    causes: list[str] = []
    command = [wanted.python, str(PROGRAM), str(request)]
    try:
        process = subprocess.Popen(
            command,
            cwd=request.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        text = f"{wanted.python} cannot be started: {error.strerror}"
        raise Problem("tool-missing", text) from error
    with process:
        try:
            for line in process.stdout or ():
                sys.stdout.write(line)
                sys.stdout.flush()
                causes += [word for word in (*FULL, *NO_PACKAGE) if word in line]
                if not line.lstrip().startswith("frame #"):
                    last.append(line.rstrip())
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise failed(process.returncode, causes, tuple(last))


def failed(status: int, causes: Sequence[str], last: tuple[str, ...]) -> Problem:
    """Return the failure of the SDK's process; ``causes`` are the words of lines that name one."""
    if any(word in FULL for word in causes):
        hint = "make room, or name another folder: --dir=/folder"
        return Problem("no-space", "the compiler ran out of disk space", hint, last)
    if status == 1 and causes:
        hint = (
            "see: `cm run script --tags=get,neuron-sdk`; weights of torchvision and MLCommons need "
        )
        hint += "torchvision and transformers in the same Python"
        return Problem("import-failed", "the SDK's Python lacks a package", hint, last)
    if status < 0:
        text = f"the compiler was ended by signal {-status}"
        memory = "memory is often the reason: see dmesg, and try a smaller --batch_size"
        hint = memory if status == -signal.SIGKILL else "its own words are above"
        return Problem("script-failed", text, hint, last)
    text = f"the compiler failed with status {status}"
    hint = "its own words are above; an operator it does not know is named there"
    return Problem("script-failed", text, hint, last)


def described(wanted: CompileRequest, made: Path, answer: dict[str, Any]) -> NeuronArtefact:
    """Return the artefact; raise Problem where its output is not as requested."""
    expected = wanted.output
    output = ArtefactTensor(
        expected.name, answer["output"]["dtype"], tuple(answer["output"]["shape"][1:])
    )
    if output != expected:
        text = f"the compiled model gives {output.dtype} {list(output.shape)} for a sample, and "
        text += f"{expected.dtype} {list(expected.shape)} was to be"
        raise Problem("model-file", text, "look at the model's facts (model.json)")
    facts = wanted.facts
    return NeuronArtefact(
        name=f"{facts['name']}_{wanted.target}_bs{wanted.batch_size}",
        file=made.name,
        sha256=sha256(made),
        bytes=made.stat().st_size,
        precision=facts["precision"],
        inputs=wanted.inputs,
        outputs=(expected,),
        neuron=NeuronCompilation(
            benchmark=wanted.benchmark,
            target=wanted.target,
            batch_size=wanted.batch_size,
            dynamic_batch=wanted.dynamic_batch,
            sdk=answer["sdk"],
            versions=answer["versions"],
            model=wanted.source,
            compiler_flags=wanted.compiler_flags,
        ),
        options=facts.get("options", {}),
        accuracy=facts["accuracy"],
    )


def _failed_file(error: OSError, path: Path) -> Problem:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    kind = "no-space" if full else "not-writable"
    text = f"cannot write {path}: {error.strerror}"
    return Problem(kind, text, "make room, or name another folder: --dir=/folder")
