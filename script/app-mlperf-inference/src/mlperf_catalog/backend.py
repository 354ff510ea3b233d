"""What is known of a runtime before it is installed: the specification of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Package:
    """A Python package that a backend needs, on one ``device`` or on all.

    ``names`` are the words by which ``--adr`` changes it, such as its version.
    """

    package: str
    names: tuple[str, ...] = ()
    device: str = ""


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """One backend of the harness.

    Attributes:
        name: As ``--backend`` takes it.
        title: What people call it.
        module: ``module:class`` of its part of the harness.
        devices, precisions: What it computes on and in.
        packages: What has to be installed.
        model_tag: The variation of a model script whose files it opens.
        refuses: Benchmarks (or ``benchmark:precision``) that it cannot run, and why.
        public: Whether users may choose it; tests have one that computes nothing.
    """

    name: str
    title: str
    module: str
    devices: tuple[str, ...] = ("cpu",)
    precisions: tuple[str, ...] = ("float32",)
    packages: tuple[Package, ...] = ()
    model_tag: str = "_onnx"
    refuses: Mapping[str, str] = field(default_factory=dict)
    public: bool = True

    def computes(self, device: str, precision: str) -> bool:
        """Whether it can compute on a device in a number format."""
        return device in self.devices and precision in self.precisions
