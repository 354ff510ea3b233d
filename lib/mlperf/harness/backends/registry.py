"""The backends: their specifications and classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from mlperf import catalog
from mlperf.catalog import BackendSpec, ConvertedGpuFormat, plugins

from ..errors import HarnessError
from ..settings import ModelSpec, Options, Setup

if TYPE_CHECKING:
    from .base import Backend

# In full: imports of what is in it are looked for by name.
PACKAGE = "mlperf.harness.backends"


def create(name: str, device: str, precision: str, options: Options | None = None) -> Backend:
    """The backend ``name`` on ``device``, computing in ``precision``, with its own ``options``.

    Raises ProgramError when there is no such backend, or when it does not have or cannot use
    the device, the precision or an option here. Its libraries are imported only now.
    """
    # Threads of OpenMP (PyTorch's) that wait for each other keep their cores busy; LoadGen and
    # other processes need these too. Its library reads this once, when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    spec, setup = _setup(name, device, precision, options or {})
    backend: Backend = _load(spec.module, name)(setup)
    return backend


def service(
    name: str, device: str, precision: str, options: Options, models: Sequence[ModelSpec] = ()
) -> AbstractContextManager[Mapping[str, Any]]:
    """Run the backend's service for a whole session; yields the options of its runs.

    ``models`` are all that the session measures, without duplicates.

    For most backends that is nothing, and nothing of theirs is imported.
    """
    spec, setup = _setup(name, device, precision, options)
    if not spec.service:
        return nullcontext({})
    started: AbstractContextManager[Mapping[str, Any]] = _load(spec.service, name)(setup, models)
    return started


def builds(name: str, precision: str) -> bool:
    """Return whether the backend opens a file that ``Backend.build`` has to make first."""
    spec = _spec(name)
    converted = [word for word in spec.precisions if isinstance(word, ConvertedGpuFormat)]
    return spec.builds or precision in converted


def _spec(name: str) -> BackendSpec:
    return catalog.backend(name)


def chosen(name: str, options: Options) -> Options:
    """``options`` as values of their types; raises CatalogError for one that there is not."""
    return _spec(name).chosen(options)


def _setup(name: str, device: str, precision: str, options: Options) -> tuple[BackendSpec, Setup]:
    spec, settings = _spec(name), chosen(name, options)
    spec.where(settings).check(device, precision)
    defaults = {key: option.default for key, option in spec.options.items()}
    return spec, Setup(device, precision, {**defaults, **settings})


def _load(class_path: str, name: str) -> Any:
    """``module:attribute`` of the user's own folder, or of this package."""
    try:
        return plugins.named_class(class_path, PACKAGE)
    except ImportError as error:
        raise HarnessError(f"backend {name} cannot be used: {error}") from error
