"""What a volunteer's machine reports on one result: fields, their limits, their one form as bytes.

This is a list of what may leave a machine: a field that is not here cannot be sent, and a value
that does not fit its field is refused on both sides. Client and server share it. The form is
canonical (JSON in UTF-8, sorted keys, no spaces), so that one digest and one signature belong to
it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from typing import Any, TypeVar

from cmbench.errors import Error
from cmbench.lib.secrecy import HIDDEN
from common.records import Metadata, RecordReader

T = TypeVar("T")

FORMAT = 1
LARGEST = 256 << 10
"""Bytes of a manifest."""
LARGEST_FILE = 64 << 20
"""Bytes of one file, as it is on the disk."""
LARGEST_RUN = 128 << 20
"""Bytes of all files of a run together."""
MOST_METRICS, MOST_PAIRS = 200, 100
METRICS, SOFTWARE, LOGS = 1, 2, 3
"""Levels of consent: figures and hardware; the versions of software too; LoadGen's logs too."""
SIGNATURE_HEADER = "X-Cmbench-Signature"
ROLES = (
    "performance-summary",
    "performance-detail",
    "accuracy-summary",
    "accuracy-detail",
    "accuracy-log",
)
MEDIA = ("text/plain", "application/json")
_SCHEME = "ed25519:"
_PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = (0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH)
"""The heights of the eight points whose order is small: what they sign, anybody signs."""
_BASE64 = r"[A-Za-z0-9_-]"
_WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


_MAKERS = re.compile(
    r"@|[\[(]*(?:[A-Za-z0-9+&_*-]|\((?:R|TM|C|tm|r|c)\)){0,24}"  # E5-2670, Core(TM)
    r"(?:/[A-Za-z0-9-]{0,12}|(?<=\w)\.\d{1,3}[A-Za-z]{0,8})?[\])]*[,;]?"  # Flex/Max, 2.30GHz
)
_NUMBERED = re.compile(r"\d{8}|[0-9A-Fa-f]{10}|[A-Za-z0-9+_]{17}")
"""What no name of a part has: a long number, digits of a digest, a key."""


PACKAGES = (
    *("onnxruntime", "openvino", "torch", "pytorch", "tensorrt", "tritonserver", "tritonclient"),
    *("loadgen", "mlcommons-loadgen", "numpy", "python", "cuda", "cudnn", "neuronx-cc"),
)
"""Packages whose versions are sent."""
OPERATING_SYSTEM = re.compile(r"(Linux|Windows|Darwin|macOS|FreeBSD)( \d+(\.\d+)?)?")


def is_name_of_part(text: str) -> bool:
    """Return whether a text looks like the name of a part as makers write it, or is empty."""
    return all(word == HIDDEN or is_word_of_maker(word) for word in text.split())


def is_word_of_maker(word: str) -> bool:
    """Return whether makers write such a word in the name of a part."""
    return _MAKERS.fullmatch(word) is not None and not _NUMBERED.search(word)


def _is(pattern: str, longest: int = 200) -> dict[str, Any]:
    """Limits of a text: it matches a pattern as a whole and has at most so many characters."""
    # Without ASCII digits of all scripts, and letters that look like others, would fit.
    return {"pattern": re.compile(pattern, re.ASCII), "longest": longest}


def _from(least: float, most: float) -> dict[str, Any]:
    """Limits of a number, or of how many there are."""
    return {"least": least, "most": most}


@dataclass(frozen=True, slots=True)
class ManifestSystem:
    """The hardware: models and numbers of parts, never the name of this one machine.

    Nothing has 0 sockets, cores, nodes or GB: there it says that they are not told. A machine may
    have no accelerator, so that their number is null then.
    """

    cpu: str = field(metadata=_is("[ -~]*"), default="")
    architecture: str = field(metadata=_is(f"({_WORD})?", 20), default="")
    sockets: int = field(metadata=_from(0, 10_000), default=0)
    cores: int = field(metadata=_from(0, 10_000_000), default=0)
    memory_gb: float = field(metadata=_from(0, 1e9), default=0.0)
    accelerator: str = field(metadata=_is("[ -~]*"), default="")
    accelerators: int | None = field(metadata=_from(0, 100_000), default=0)
    nodes: int = field(metadata=_from(0, 100_000), default=1)


@dataclass(frozen=True, slots=True)
class ManifestSoftware:
    """What ran (from level 2 on); versions by the name of the package."""

    os: str = field(metadata=_is(r"[A-Za-z0-9 ._-]*", 60), default="")
    versions: Mapping[str, str] = field(
        metadata=_is(r"[0-9][0-9A-Za-z.+-]*", 60), default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class ManifestWorkload:
    """What was measured, in the words of the rules; ``mode`` is performance, accuracy or all."""

    suite: str = field(metadata=_is("mlperf-inference"))
    round: str = field(metadata=_is(r"(\d+\.\d+)?", 10))
    benchmark: str = field(metadata=_is(_WORD, 60))
    model: str = field(metadata=_is(f"({_WORD})?", 100))
    dataset: str = field(metadata=_is(f"({_WORD})?", 100))
    scenario: str = field(metadata=_is("Offline|Server|SingleStream|MultiStream|Interactive"))
    mode: str = field(metadata=_is("performance|accuracy|all"))
    division: str = field(metadata=_is("closed|open|network|"))
    category: str = field(metadata=_is("edge|datacenter|datacenter,edge|"))
    precision: str = field(metadata=_is(f"({_WORD})?", 40))


@dataclass(frozen=True, slots=True)
class ManifestConfig:
    """How it was measured; ``style`` is the length of a run, ``command`` what repeats it."""

    backend: str = field(metadata=_is(f"({_WORD})?", 60))
    device: str = field(metadata=_is(f"({_WORD})?", 40))
    style: str = field(metadata=_is("test|fast|valid|"))
    settings: Mapping[str, str] = field(
        metadata=_is(r"[A-Za-z0-9._+, -]*", 100), default_factory=dict
    )
    command: str = field(metadata=_is(r"[A-Za-z0-9._+,=_ -]*", 2_000), default="")


@dataclass(frozen=True, slots=True)
class ManifestMetric:
    """A figure; ``result`` is what the rules count, the others are named as in cmbench_results."""

    name: str = field(metadata=_is(r"[a-z][a-z0-9_.]*", 60))
    value: float = field(metadata=_from(-1e300, 1e300))
    unit: str = field(metadata=_is(r"[A-Za-z0-9%/ ._-]*", 40))


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file that goes with the manifest (level 3); ``sha256`` and ``bytes`` are of it unpacked."""

    role: str = field(metadata=_is("|".join(ROLES)))
    name: str = field(metadata=_is(r"[A-Za-z0-9][A-Za-z0-9._-]*", 100))
    sha256: str = field(metadata=_is(r"[0-9a-f]{64}"))
    bytes: int = field(metadata=_from(0, LARGEST_FILE))
    media: str = field(metadata=_is("|".join(MEDIA)))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One scenario of one benchmark on one machine; ``validity`` of it is for the server to say."""

    id: str = field(metadata=_is(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}"))
    created: str = field(metadata=_is(r"\d{4}-\d\d-\d\d"))
    consent: int = field(metadata=_from(METRICS, LOGS))
    key: str = field(metadata=_is(f"{_SCHEME}{_BASE64}{{43}}"))
    system: ManifestSystem
    workload: ManifestWorkload
    config: ManifestConfig
    metrics: tuple[ManifestMetric, ...] = field(metadata=_from(1, MOST_METRICS))
    software: ManifestSoftware | None = None
    files: tuple[ManifestFile, ...] = field(metadata=_from(0, len(ROLES)), default=())
    work_unit: str | None = field(metadata=_is(r"[A-Za-z0-9_-]+", 64), default=None)
    format: int = field(metadata=_from(FORMAT, FORMAT), default=FORMAT)


def encode(manifest: Manifest) -> bytes:
    """Return the canonical bytes of a manifest, with all checks; raise ``bad-manifest``."""
    data = canonical(asdict(manifest))
    parse(data)
    return data


def parse(data: bytes) -> Manifest:
    """Return the manifest of foreign canonical bytes; raise ``bad-manifest``, which says where."""
    if len(data) > LARGEST:
        raise _bad(f"it has {len(data):,} bytes; {LARGEST:,} is the limit")
    try:
        decoded = json.loads(
            data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as problem:
        raise _bad(f"it is not JSON: {problem}") from None
    manifest = _ManifestReader(_bad).decode(Manifest, decoded)
    _together(manifest)
    if canonical(asdict(manifest)) != data:
        raise _bad("it is not canonical: keys sorted, no spaces, numbers as Python writes them")
    return manifest


def digest(data: bytes) -> str:
    """Return the SHA-256 of a manifest's bytes in hexadecimal digits: its ``Idempotency-Key``."""
    return hashlib.sha256(data).hexdigest()


def to_text(data: bytes) -> str:
    """Bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def key_text(public: bytes) -> str:
    """Return the 32 bytes of a public key in a manifest."""
    return _SCHEME + to_text(public)


def verify(data: bytes, signature: str) -> Manifest:
    """Return the manifest of signed bytes; raise ``bad-manifest``, ``bad-signature``.

    A signature proves that the holder of the key made these bytes, not that they are true.
    """
    manifest = parse(data)
    if not is_signed(data, manifest.key, signature):
        raise Error(
            "bad-signature",
            "the signature does not belong to this manifest and its key",
            hint="send it as it was signed; a changed manifest must be signed again",
        )
    return manifest


def is_signed(data: bytes, key: str, signature: str) -> bool:
    """Return whether the holder of a key, as text of a manifest, has signed these bytes.

    A key has one text only, and is none for which everybody can sign (RFC 8032, 5.1.7; the points
    of small order of RFC 7748, 7).
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not key.startswith(_SCHEME):
        return False
    try:
        public = _bytes(key.removeprefix(_SCHEME))
        height = int.from_bytes(public, "little") & ~(1 << 255)
        if height in _WEAK or height >= _PRIME:
            return False
        Ed25519PublicKey.from_public_bytes(public).verify(_bytes(signature), data)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def _bytes(text: str) -> bytes:
    if not re.fullmatch(f"{_BASE64}+", text):
        raise ValueError("not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_text(data) != text:
        raise ValueError("the text is not the canonical one for its bytes")
    return data


def canonical(data: Mapping[str, Any]) -> bytes:
    """Return the one form of a manifest's plain data as bytes; raise ``ValueError`` for NaN."""
    text = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def _bad(why: str) -> Error:
    return Error(
        "bad-manifest",
        f"the manifest is refused: {why}",
        hint="make it with `cm bundle crowd ID --output=FILE`; `cm show crowd ID` names its fields",
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return unique


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _together(manifest: Manifest) -> None:
    """Raise ``bad-manifest`` for fields that do not fit together."""
    for what, level, value in (
        ("software", SOFTWARE, manifest.software),
        ("files", LOGS, manifest.files),
    ):
        if value and manifest.consent < level:
            raise _bad(f"{what} is of consent level {level}, this one has {manifest.consent}")
    _apart("role", [item.role for item in manifest.files])
    _apart("metric", [item.name for item in manifest.metrics])
    if sum(item.bytes for item in manifest.files) > LARGEST_RUN:
        raise _bad(f"its files have more than {LARGEST_RUN:,} bytes together")
    try:
        date.fromisoformat(manifest.created)
    except ValueError:
        raise _bad(f"created is {manifest.created}, which is not a day") from None


def _apart(what: str, names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise _bad(f"a {what} occurs twice in it")


class _ManifestReader(RecordReader):
    """Reads what has exactly the fields of a manifest, within their limits."""

    def decode(self, cls: type[T], data: object, where: str = "") -> T:
        """Return a dataclass from plain data; raise ``bad-manifest``."""
        if isinstance(data, dict) and (missing := {f.name for f in fields(cls)} - data.keys()):  # type: ignore[arg-type]
            raise self.failure(f"{where or 'it'} lacks {min(missing)!r}")
        return super().decode(cls, data, where)

    def items(self, hint: Any, value: object, where: str, limits: Metadata) -> Any:
        """Return so many objects as there may be."""
        if not isinstance(value, list) or not limits["least"] <= len(value) <= limits["most"]:
            text = f"{where} is not a list of {limits['least']} to {limits['most']} objects"
            raise self.failure(text)
        return super().items(hint, value, where, limits)

    def mapping(self, hint: Any, value: object, where: str, limits: Metadata) -> Any:
        """Return an object of texts."""
        return _pairs(value, where, limits)

    def scalar(self, hint: Any, value: object, where: str, limits: Metadata) -> Any:
        """Return a text or a number."""
        return _text(value, where, limits) if hint is str else _number(hint, value, where, limits)


def _pairs(value: object, where: str, limits: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MOST_PAIRS:
        raise _bad(f"{where} is not an object of at most {MOST_PAIRS} texts")
    name = {"pattern": re.compile(_WORD, re.ASCII), "longest": 60}
    return {
        _text(key, f"a name in {where}", name): _text(text, f"{where}.{key:.60}", limits)
        for key, text in value.items()
    }


def _text(value: object, where: str, limits: Mapping[str, Any]) -> str:
    if not isinstance(value, str) or len(value) > limits["longest"] or not value.isprintable():
        raise _bad(f"{where} is not printable text of at most {limits['longest']} characters")
    if not limits["pattern"].fullmatch(value):
        raise _bad(f"{where} is {value!r:.80}, which does not fit {limits['pattern'].pattern:.80}")
    return value


def _number(hint: Any, value: object, where: str, limits: Mapping[str, Any]) -> Any:
    # No float holds a whole number of 400 digits; the bounds refuse it.
    finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if type(value) is not hint or not finite:
        word = "whole number" if hint is int else "number with a point"
        raise _bad(f"{where} is not a {word}: {value!r:.60}")
    if not limits["least"] <= value <= limits["most"]:
        raise _bad(f"{where} is {value!r:.40}, not {limits['least']:g} to {limits['most']:g}")
    return value
