"""The specification of a backend: facts of a runtime that is not installed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .text_enums import CatalogError

Plain = str | int | float | bool
# The step whose model a backend opens instead of the benchmark's own.
COMPILE = "compile,neuron-model"
YES_NO = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class GpuFormat(str):
    """A number format in which a backend computes on a GPU only."""


class ConvertedGpuFormat(GpuFormat):
    """One for which the backend writes the model anew before it opens it."""


@dataclass(frozen=True, slots=True)
class Package:
    """A Python package that a backend needs, on one ``device`` or on all.

    ``names`` are the words by which ``--adr`` changes it, such as its version. ``models`` and
    ``forms`` are the benchmarks, and their forms, that alone need it.
    """

    package: str
    names: tuple[str, ...] = ()
    device: str = ""
    models: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Another script that has to run first, by its ``tags``; ``names`` are its words for ``--adr``.

    The values of the env keys in ``variations`` become variations of it; there they have defaults.
    It is left out where the env key ``unless`` is set, and gets the keys of ``env``; ``defaults``
    are env keys that the user may set. A ``prerequisite`` is looked for before anything is fetched;
    ``devices`` are those that it is for, by default all.
    """

    tags: str
    names: tuple[str, ...] = ()
    variations: Mapping[str, str] = field(default_factory=dict)
    unless: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    prerequisite: bool = False
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of one backend; values have the type of ``default``, and are of ``choices``.

    ``key`` is the env key of a flag of its own, besides ``--backend_options``. Without the option
    that it ``needs`` it has no effect.
    """

    default: Plain
    help: str
    choices: tuple[Plain, ...] = ()
    key: str = ""
    needs: str = ""

    def value(self, value: Plain) -> Plain:
        """Return ``value``, which may be a text, in the type of the option; raises ValueError."""
        kind = type(self.default)
        if isinstance(value, str) and kind is bool:
            converted: Plain = YES_NO.get(value.lower(), value)
        else:
            converted = kind(value)
        if type(converted) is not kind or (self.choices and converted not in self.choices):
            raise ValueError(value)
        return converted


DEVICES = Option(
    "",
    "numbers of GPUs that share the samples, with commas between, or all; 0 without",
    key="CM_MLPERF_DEVICES",
)
"""Of backends that have workers on several GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCapabilities:
    """What a backend opens and computes, and what that needs.

    Attributes:
        devices, precisions: Devices and number formats that it supports; a ``GpuFormat`` not on
            the CPU.
        packages: What has to be installed.
        model_tag: The variation of a model script whose files it opens.
        data_tag: The variation of the data that these files want, where it is another one.
        only: The benchmarks that it can run, where it cannot run all.
        steps: Other scripts that have to run first.
    """

    devices: tuple[str, ...] = ("cpu",)
    precisions: tuple[str, ...] = ("float32",)
    packages: tuple[Package, ...] = ()
    model_tag: str = "_onnx"
    data_tag: str = ""
    only: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Case(BackendCapabilities):
    """What a backend opens and computes where its ``option`` has one ``value``.

    ``packages`` and ``steps`` are further ones. Systems are called after the value too, so that no
    result or target of one is taken for another's.
    """

    option: str
    value: str


@dataclass(frozen=True, slots=True)
class BackendSpec(BackendCapabilities):
    """One backend of the harness.

    Attributes:
        name: As ``--backend`` takes it.
        title: What people call it.
        module: ``module:class`` of its part of the harness.
        quantized: The variation of the quantizer whose models it takes in int8.
        refuses: Benchmarks (or ``benchmark:precision``) that it cannot run, and why.
        options: Its own settings, by name (``--backend_options=name=value``).
        generates: Whether it generates tokens; it then runs the benchmarks that need that, and no
            others.
        builds: Whether it turns the model into a file of its own before it can open it.
        service: ``module:function`` of what must run during a whole session, such as a
            server: a context manager that takes a ``Setup`` and the models, and gives further
            options.
        stands_in: The device that it replaces, by the device that computes: ``stand_in.py``.
        public: Whether users may choose it; tests have one that computes nothing.
        named: What systems and their targets are called after; empty for ``name``.
        cases: Fields that change with a value of an option; ``model_tag`` and the like count where
            there are none.
    """

    name: str
    title: str
    module: str
    quantized: str = ""
    refuses: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    generates: bool = False
    builds: bool = False
    service: str = ""
    stands_in: Mapping[str, str] = field(default_factory=dict)
    public: bool = True
    named: str = ""
    cases: tuple[Case, ...] = ()

    @property
    def compiles(self) -> bool:
        """Return whether it opens what a step has compiled for AWS Neuron."""
        return any(step.tags == COMPILE for step in self.steps)

    def where(self, options: Mapping[str, Plain]) -> BackendSpec:
        """Return the specification with these options, which are values of their types."""
        spec = self
        for case in self.cases:
            if options.get(case.option, self.options[case.option].default) == case.value:
                spec = replace(
                    spec,
                    named=f"{case.value}-{self.name}",
                    devices=case.devices,
                    precisions=case.precisions,
                    packages=(*spec.packages, *case.packages),
                    model_tag=case.model_tag,
                    data_tag=case.data_tag,
                    only=case.only,
                    steps=(*spec.steps, *case.steps),
                )
        return spec

    def computes(self, device: str, precision: str) -> bool:
        """Return whether it can compute on a device in a number format."""
        known = self.precisions
        if device == "cpu":
            known = tuple(word for word in known if not isinstance(word, GpuFormat))
        return device in self.devices and precision in known

    def check(self, device: str, precision: str) -> None:
        """Raise CatalogError where it does not know the device or the precision."""
        for kind, value, known in (
            ("device", device, self.devices),
            ("precision", precision, [p for p in self.precisions if self.computes(device, p)]),
        ):
            if value not in known:
                raise CatalogError(
                    f"{self.name} has no {kind} {value}; there are: {', '.join(known)}"
                )

    def chosen(self, options: Mapping[str, Plain]) -> dict[str, Plain]:
        """Return ``options`` as values of their types; raises CatalogError for unknown ones."""
        return {name: self._value(name, value) for name, value in options.items()}

    def _value(self, name: str, value: Plain) -> Plain:
        option = self.options.get(name)
        if option is None:
            import difflib

            near = difflib.get_close_matches(name, self.options, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            known = ", ".join(self.options) or "none"
            raise CatalogError(f"{self.name} has no option {name}, only: {known}{meant}")
        try:
            return option.value(value)
        except ValueError as error:
            wanted = ", ".join(map(str, option.choices)) or type(option.default).__name__
            raise CatalogError(f"{self.name}: {name}={value} is none of: {wanted}") from error
