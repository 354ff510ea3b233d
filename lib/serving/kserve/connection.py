"""A connection to a server that speaks KServe's Predict Protocol v2, whatever carries it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from .address import Address
from .errors import KserveError
from .regions import RegionSlice
from .tensors import WireTensor, tensor_of
from .values import (
    Model,
    ModelState,
    ServerMetadata,
    SharedRegion,
    Statistics,
    read_index,
    read_model,
    read_regions,
    read_server,
    read_statistics,
)

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What holds for all requests of a connection.

    ``timeout`` is for one request from its first byte to the answer's last, in seconds.
    ``headers`` go with every request. ``tls_ca`` is a file of certificates to trust in place of
    the system's. ``compression`` is none, gzip or deflate, of requests and answers.
    """

    timeout: float = 60.0
    headers: tuple[tuple[str, str], ...] = ()
    tls_ca: str = ""
    compression: str = "none"


class Connection(ABC):
    """One connection: one request in flight, others of the same process wait for it.

    Threads that are to have requests in flight at once take a connection each. Every method raises
    KserveError; after one, the next request opens the connection again. Nothing is repeated.
    """

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self.address = address
        self.options = options

    def server(self) -> ServerMetadata:
        """Return the server's name, version and extensions."""
        return _read(read_server, self._ask("ServerMetadata"))

    def live(self) -> bool:
        """Return whether the server says that it is there."""
        return self._is("ServerLive")

    def ready(self, model: str = "", version: str = "") -> bool:
        """Return whether a model is ready; without one, whether the server is."""
        if not model:
            return self._is("ServerReady")
        return self._is("ModelReady", name=model, version=version)

    def model(self, name: str, version: str = "") -> Model:
        """Return a model's platform, inputs and outputs."""
        return _read(read_model, self._ask("ModelMetadata", name=name, version=version))

    def config(self, name: str, version: str = "") -> Mapping[str, Any]:
        """Return a model's configuration, with the fields of Triton's model_config.proto."""
        return _read(dict, self._ask("ModelConfig", name=name, version=version))

    def statistics(self, name: str, version: str = "") -> Statistics:
        """What a model has done so far; of several versions, the newest.

        Raises KserveError when there are none.
        """
        answer = _read(dict, self._ask("ModelStatistics", name=name, version=version))
        if not answer.get("model_stats"):
            raise KserveError("protocol", f"the server has no statistics of {name}")
        return _read(lambda all_: read_statistics(all_[-1]), answer["model_stats"])

    def index(self) -> tuple[ModelState, ...]:
        """Return all models of the repository, with their states."""
        return _read(read_index, self._ask("RepositoryIndex"))

    def load(self, name: str, config: str = "") -> None:
        """Load a model, with ``config`` (JSON) in place of its own."""
        parameters = {"config": config} if config else {}
        self._ask("RepositoryModelLoad", model_name=name, parameters=parameters)

    def unload(self, name: str) -> None:
        """Have a model unloaded."""
        self._ask("RepositoryModelUnload", model_name=name)

    def regions(self) -> tuple[SharedRegion, ...]:
        """Return the regions of system shared memory that the server has registered."""
        return _read(read_regions, self._ask("SystemSharedMemoryStatus"))

    def register_region(self, name: str, key: str, size: int, offset: int = 0) -> None:
        """Have the server map ``size`` bytes of a region; ``Region`` does it in the right order."""
        self._ask("SystemSharedMemoryRegister", name=name, key=key, byte_size=size, offset=offset)

    def unregister_region(self, name: str) -> None:
        """Have the server forget a region."""
        self._ask("SystemSharedMemoryUnregister", name=name)

    @abstractmethod
    def _ask(self, question: str, **fields: Any) -> Any:
        """Return the answer to a method of the gRPC service, as the same thing over HTTP has it."""

    @abstractmethod
    def _is(self, question: str, **fields: Any) -> bool:
        """Return the answer of the server to yes or no."""

    @abstractmethod
    def prepare(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | Mapping[str, RegionSlice | None] = (),
        version: str = "",
    ) -> Any:
        """Return a request that ``run`` can send repeatedly; arguments as of ``infer``."""

    @abstractmethod
    def run(self, request: Any) -> dict[str, WireTensor]:
        """Send what ``prepare`` gave; the answer as of ``infer``."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    @abstractmethod
    def interrupt(self) -> None:
        """Have a request that another thread waits for fail at once."""

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | Mapping[str, RegionSlice | None] = (),
        version: str = "",
    ) -> dict[str, WireTensor]:
        """One inference.

        Args:
            model: the model's name
            inputs: arrays (anything with a buffer), lists of texts, ``WireTensor`` or
                ``RegionSlice`` by name
            outputs: the names wanted, all without any; with a RegionSlice, where to write it
            version: the model's version, the server's choice without one

        Returns:
            the outputs by name, valid until the connection's next request

        """
        return self.run(self.prepare(model, inputs, outputs, version))

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _read(reader: Callable[[Any], _Read], answer: Any) -> _Read:
    """What a server says of itself; raises KserveError (``protocol``) where it says none of it."""
    try:
        return reader(answer)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        start = repr(answer)[:80]
        raise KserveError("protocol", f"the server describes something as {start}") from error


def as_inputs(inputs: Mapping[str, Any]) -> dict[str, WireTensor | RegionSlice]:
    """Every value as something that can be sent."""
    return {
        name: value if isinstance(value, RegionSlice) else tensor_of(value)
        for name, value in inputs.items()
    }


def as_outputs(
    outputs: Sequence[str] | Mapping[str, RegionSlice | None],
) -> Mapping[str, RegionSlice | None]:
    """Return the requested outputs with their slices, if any."""
    return outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
