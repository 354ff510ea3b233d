"""The protocol over gRPC, with the messages of tritonclient."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .address import Address
from .connection import Connection, ConnectionOptions, as_inputs, as_outputs
from .errors import Kind, KserveError
from .regions import RegionSlice
from .tensors import WireTensor, check_size, tensor_in

SERVICE = "/inference.GRPCInferenceService/"
# A channel that was refused tries again this late at first and at last, in ms.
# What answers have in a field, where HTTP has it bare.
FIELDS = {
    "ModelConfig": "config",
    "RepositoryIndex": "models",
    "SystemSharedMemoryStatus": "regions",
}
# Of these "min" is how long an attempt may take: a handshake of TLS over a long way needs a second.
RECONNECT = (("initial", 100), ("min", 10_000), ("max", 1000))


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """The bytes of a request, and where its outputs go."""

    message: bytes
    outputs: Mapping[str, RegionSlice | None]


class GrpcConnection(Connection):
    """One channel with a connection of its own; raises KserveError (``package``) without gRPC."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        super().__init__(address, options)
        self._grpc, self._pb = _packages()
        self._metadata = tuple((name.lower(), value) for name, value in options.headers)
        self._channel = self._open()
        self._lock = threading.Lock()
        self._infer = self._channel.unary_unary(
            f"{SERVICE}ModelInfer",
            request_serializer=None,
            response_deserializer=self._pb.ModelInferResponse.FromString,
        )

    def prepare(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | Mapping[str, RegionSlice | None] = (),
        version: str = "",
    ) -> GrpcRequest:
        """Return the message, packed once; raise KserveError without a model."""
        if not model:
            raise KserveError("input", "no model is named")
        message = self._pb.ModelInferRequest(model_name=model, model_version=version)
        for name, value in as_inputs(inputs).items():
            place = message.inputs.add(name=name, datatype=value.datatype, shape=value.shape)
            if isinstance(value, RegionSlice):
                _share(place.parameters, value)
            else:
                message.raw_input_contents.append(bytes(value.data))
        places = as_outputs(outputs)
        for name, where in places.items():
            wanted = message.outputs.add(name=name)
            if where is not None:
                _share(wanted.parameters, where)
        return GrpcRequest(message.SerializeToString(), places)

    def run(self, request: GrpcRequest) -> dict[str, WireTensor]:
        """Send it; the outputs keep the message that they came in."""
        with self._lock:
            answer = self._call(self._infer, request.message)
        return _outputs(answer, request.outputs)

    def close(self) -> None:
        """End the channel; it cannot be used again."""
        self._channel.close()

    def interrupt(self) -> None:
        """Cancel the call that is under way."""
        self._channel.close()

    def _open(self) -> Any:
        options: list[tuple[str, Any]] = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            # A channel of its own connection: others to the same address would share it.
            ("grpc.use_local_subchannel_pool", 1),
            *((f"grpc.{name}_reconnect_backoff_ms", value) for name, value in RECONNECT),
        ]
        coding = {"none": "NoCompression", "gzip": "Gzip", "deflate": "Deflate"}
        if self.options.compression not in coding:
            raise KserveError("input", f'"{self.options.compression}" is not a compression method')
        compression = getattr(self._grpc.Compression, coding[self.options.compression])
        if not self.address.tls:
            place = str(self.address)
            return self._grpc.insecure_channel(place, options=options, compression=compression)
        # gRPC has its own list; trust the same as over HTTP, SSL_CERT_FILE included.
        roots = self.options.tls_ca or ssl.get_default_verify_paths().cafile
        try:
            trusted = Path(roots).read_bytes() if roots else None
        except OSError as error:
            raise KserveError("input", f"{roots}: {error.strerror}") from error
        credentials = self._grpc.ssl_channel_credentials(root_certificates=trusted)
        return self._grpc.secure_channel(
            str(self.address), credentials, options=options, compression=compression
        )

    def _is(self, question: str, **fields: Any) -> bool:
        try:
            return any(self._ask(question, **fields).values())
        except KserveError as error:
            if error.kind == "status":
                return False
            raise

    def _ask(self, question: str, **fields: Any) -> Any:
        from google.protobuf.json_format import MessageToDict

        if parameters := fields.get("parameters"):
            kind = self._pb.ModelRepositoryParameter
            made = {name: kind(string_param=value) for name, value in parameters.items()}
            fields = {**fields, "parameters": made}
        request = getattr(self._pb, f"{question}Request")(**fields)
        call = self._channel.unary_unary(
            f"{SERVICE}{question}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(self._pb, f"{question}Response").FromString,
        )
        with self._lock:
            answer = self._call(call, request)
        message = MessageToDict(answer, preserving_proto_field_name=True)
        if question in FIELDS:
            message = message.get(FIELDS[question]) or {}
        return list(message.values()) if question == "SystemSharedMemoryStatus" else message

    def _call(self, call: Any, request: Any) -> Any:
        try:
            return call(request, timeout=self.options.timeout, metadata=self._metadata)
        except self._grpc.RpcError as error:
            raise self._problem(error) from error
        except ValueError as error:
            raise KserveError("input", f"the channel takes no more requests: {error}") from error

    def _problem(self, error: Any) -> KserveError:
        code, details = error.code(), str(error.details() or "")
        names = self._grpc.StatusCode
        kind: Kind = "status"
        if code == names.DEADLINE_EXCEEDED:
            kind, details = "timeout", f"no answer within {self.options.timeout:g} s"
        elif code == names.UNAVAILABLE:
            refused = ("refused", "resol", "Failed to connect", "No route")
            kind = "refused" if any(word in details for word in refused) else "reset"
        elif code == names.CANCELLED:
            kind = "reset"
        elif code in (names.INTERNAL, names.UNKNOWN) and "eserializ" in details:
            kind = "protocol"
        number = code.value[0] if kind == "status" else 0
        return KserveError(kind, f"{self.address}: {code.name}: {details}", status=number)


def _packages() -> tuple[Any, Any]:
    """Module grpc and the messages."""
    try:
        import grpc
        from tritonclient.grpc import service_pb2
    except ImportError as error:
        raise KserveError(
            "package",
            f"gRPC needs the package tritonclient: {error}",
            hint='`python3 -m pip install "tritonclient[grpc]"`',
        ) from error
    return grpc, service_pb2


def _share(parameters: Any, place: RegionSlice) -> None:
    parameters["shared_memory_region"].string_param = place.region
    parameters["shared_memory_byte_size"].int64_param = place.size
    if place.offset:
        parameters["shared_memory_offset"].int64_param = place.offset


def _outputs(answer: Any, placed: Mapping[str, RegionSlice | None]) -> dict[str, WireTensor]:
    """The outputs of an answer; raises KserveError (``protocol``) where it contradicts itself."""
    tensors: dict[str, WireTensor] = {}
    raw = iter(answer.raw_output_contents)
    for output in answer.outputs:
        shape, where = tuple(output.shape), placed.get(output.name)
        if min(shape, default=0) < 0 or output.name in tensors:
            raise KserveError("protocol", f"{output.name} has the shape {list(shape)}, or is twice")
        data = next(raw, None)
        if where is not None and not data:
            # Triton names an output in shared memory without saying so.
            data = tensor_in(output.name, output.datatype, shape, where.memory).data
        if data is None:
            raise KserveError("protocol", f"{output.name} has no bytes")
        tensors[output.name] = WireTensor(output.datatype, shape, memoryview(data))
        check_size(output.name, tensors[output.name])
    if missing := [name for name in placed if name not in tensors]:
        raise KserveError("protocol", f"the answer lacks {', '.join(missing)}")
    return tensors
