"""KServe's Predict Protocol v2 as Triton speaks it: over HTTP, gRPC, and shared memory.

HTTP and shared memory need nothing but Python; gRPC needs the package tritonclient. Nothing here
knows of benchmarks: the clients that measure are built on it.
"""

from __future__ import annotations

from .address import Address, read_address
from .connection import Connection, ConnectionOptions
from .errors import Kind, KserveError
from .regions import Region, RegionSlice
from .rest import HttpConnection
from .tensors import CODES, FLOATS, SIZES, WireTensor, tensor_of
from .values import (
    BatchStatistics,
    Duration,
    Model,
    ModelState,
    ServerMetadata,
    SharedRegion,
    Statistics,
    TensorInfo,
)

PROTOCOLS = ("http", "grpc")


def connect(
    url: str, protocol: str = "http", options: ConnectionOptions | None = None
) -> Connection:
    """Return a connection to ``url`` (HOST:PORT), opened with its first request.

    Raises KserveError: ``input`` for an address, an option or a protocol that there is not,
    ``package`` where gRPC is asked for without tritonclient.
    """
    if protocol not in PROTOCOLS:
        raise KserveError("input", f'"{protocol}" is not a protocol; there are http and grpc')
    address = read_address(url, protocol)
    if protocol == "http":
        return HttpConnection(address, options or ConnectionOptions())
    from .rpc import GrpcConnection

    return GrpcConnection(address, options or ConnectionOptions())


__all__ = [
    "CODES",
    "FLOATS",
    "PROTOCOLS",
    "SIZES",
    "Address",
    "BatchStatistics",
    "Connection",
    "ConnectionOptions",
    "Duration",
    "HttpConnection",
    "Kind",
    "KserveError",
    "Model",
    "ModelState",
    "Region",
    "RegionSlice",
    "ServerMetadata",
    "SharedRegion",
    "Statistics",
    "TensorInfo",
    "WireTensor",
    "connect",
    "tensor_of",
]
