"""The containers of clusters: how Apptainer, Enroot and pyxis start a worker in an image."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.python_path import VARIABLE

RUNTIMES = ("apptainer", "singularity", "pyxis", "enroot")
"""Programs that run an image; pyxis is a plugin of ``srun``."""
_OF_CMBENCH = ("CM_REPOS", "CMBENCH_SWEEPS")
_ENTER = 'cd "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class JobContainer:
    """An image that workers run in, by one of ``RUNTIMES``.

    It has a Python 3.10 and what the scripts take from the system. ``gpus`` says whether those of
    NVIDIA are let in; Enroot decides that by the variables of the image. ``variables`` are names of
    variables that come in from outside, where not all do.
    """

    program: str
    image: str
    gpus: bool = False
    variables: tuple[str, ...] = ()

    def words(self, paths: Sequence[str], folder: str) -> Iterator[str]:
        """Yield the words before a command that sees ``paths`` and starts in ``folder``."""
        # One that lies in another one is there with that.
        outer = [p for p in paths if not any(p.startswith(f"{o.rstrip('/')}/") for o in paths)]
        paths = list(dict.fromkeys(outer))
        if self.program == "pyxis":
            return self._pyxis(paths, folder)
        if self.program == "enroot":
            return self._enroot(paths, folder)
        return self._apptainer(paths, folder)

    def _apptainer(self, paths: Sequence[str], folder: str) -> Iterator[str]:
        yield from (self.program, "exec", *(["--nv"] if self.gpus else []))
        yield from (f"--bind={path}" for path in paths)
        yield from (f"--pwd={folder}", self.image)

    def _pyxis(self, paths: Sequence[str], folder: str) -> Iterator[str]:
        """Yield ``srun`` for one task with all that its job has."""
        yield from ("srun", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none")
        yield f"--container-image={self.image}"
        yield f"--container-mounts={','.join(f'{path}:{path}' for path in paths)}"
        yield f"--container-workdir={folder}"
        # Otherwise the values of the image come first.
        yield f"--container-env={','.join(self._names())}"

    def _enroot(self, paths: Sequence[str], folder: str) -> Iterator[str]:
        yield from ("enroot", "start", "--rw")
        yield from (f"--mount={path}:{path}:none:x-create=dir,rbind" for path in paths)
        yield from (f"--env={name}" for name in self._names())
        yield from (self.image, "sh", "-c", _ENTER, folder)

    def _names(self) -> list[str]:
        """Return the names of the variables that a worker gets."""
        return [VARIABLE, *filter(os.environ.get, _OF_CMBENCH), *self.variables]
