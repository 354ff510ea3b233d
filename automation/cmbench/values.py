"""The engine's data classes: ``immutable`` and ``mutable`` make them, of ``field``.

A type checker sees ``dataclasses.dataclass``, and refuses every assignment to a field of a frozen
one. At run time nothing guards them, and a class costs the start of a command nearly nothing:
``dataclasses`` compiles the methods of each, which takes longer than importing its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
    from dataclasses import dataclass as mutable
    from dataclasses import field, replace
else:
    from operator import attrgetter

    MISSING = object()

    class Field:
        """What a class says of a field besides its type."""

        def __init__(self, default_factory, init):
            self.default_factory = default_factory
            self.init = init

    def field(*, default_factory=MISSING, init=True):
        """As ``dataclasses.field``: what makes a default, or that only the class itself sets it."""
        return Field(default_factory, init)

    _OFTEN = 40
    """After so many calls a compiled ``__init__`` has paid for itself."""

    def immutable(*, frozen, slots, eq, repr):  # noqa: A002
        """``dataclass`` without the guards that a type checker has already checked.

        The class has only the fields that it names itself.
        """

        def decorate(cls):
            names = tuple(cls.__annotations__)
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
            if any(type(value).__module__ == "dataclasses" for value in defaults.values()):
                raise TypeError(f"{cls.__qualname__}: take field from cmbench.values")
            left_out = {*names, "__dict__", "__weakref__"}
            body = {key: value for key, value in vars(cls).items() if key not in left_out}
            body |= _compared(names) if eq else {}
            body |= {"__repr__": _repr} if repr else {}
            body["__dataclass_fields__"] = _Fields(cls)
            made = type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": names})
            made.__match_args__ = tuple(n for n in names if getattr(defaults.get(n), "init", True))
            made.__init__ = _first_init(made, defaults)
            return made

        return decorate

    def mutable(*, slots, eq, repr):  # noqa: A002
        """The same for a class whose fields may be assigned to."""
        return immutable(frozen=False, slots=slots, eq=eq, repr=repr)

    def replace(value, **changes):
        """``dataclasses.replace`` for a class of this module."""
        fields = {name: getattr(value, name) for name in value.__match_args__}
        return type(value)(**{**fields, **changes})

    def _first_init(cls, defaults):
        """``__init__`` of a class of which most commands make few objects: none is compiled for it.

        Where many are made, or the arguments are wrong, a compiled one replaces it.
        """
        names = cls.__match_args__
        known, needed = set(names), set(names) - set(defaults)
        makers = {n: d.default_factory for n, d in defaults.items() if isinstance(d, Field)}
        plain = {name: default for name, default in defaults.items() if name not in makers}
        finish = getattr(cls, "__post_init__", None)
        calls = 0

        def __init__(self, *positional, **named):  # noqa: N807
            nonlocal calls
            calls += 1
            values = {**dict(zip(names, positional, strict=False)), **named}
            fits = len(values) == len(positional) + len(named) and needed <= values.keys() <= known
            if calls > _OFTEN or not fits:
                cls.__init__ = _compiled_init(names, defaults, finish)
                cls.__init__(self, *positional, **named)
                return
            values = {**plain, **values}
            for name in names:
                setattr(self, name, values[name] if name in values else makers[name]())
            if finish:
                finish(self)

        return __init__

    def _compiled_init(names, defaults, finish):
        """``__init__`` of a class that is called with the fields ``names``."""
        scope = {"MISSING": MISSING, "finish": finish}
        arguments, lines = [], []
        for name in names:
            default = defaults.get(name, MISSING)
            value = name
            if isinstance(default, Field):
                scope[f"make_{name}"], scope[f"default_{name}"] = default.default_factory, MISSING
                value = f"make_{name}() if {name} is MISSING else {name}"
            else:
                scope[f"default_{name}"] = default
            arguments.append(name if default is MISSING else f"{name}=default_{name}")
            lines.append(f" self.{name} = {value}\n")
        lines.append(" finish(self)\n" if finish else " pass")
        exec(f"def __init__(self, {', '.join(arguments)}):\n{''.join(lines)}", scope)
        return scope["__init__"]

    def _compared(names):
        """What compares all fields; it is called often, so that it takes them in one go."""
        values = attrgetter(*names)

        def same(self, other):
            if self.__class__ is not other.__class__:
                return NotImplemented
            return values(self) == values(other)

        return {"__eq__": same, "__hash__": lambda self: hash(values(self))}

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__qualname__}({shown})"

    class _Fields:
        """``__dataclass_fields__`` of a class, made on demand for ``asdict``."""

        def __init__(self, cls):
            self._cls = cls

        def __get__(self, instance, owner):
            from dataclasses import dataclass
            from dataclasses import field as known_field

            own = [
                (name, value) for name, value in vars(self._cls).items() if isinstance(value, Field)
            ]
            for name, value in own:
                makes = (
                    {}
                    if value.default_factory is MISSING
                    else {"default_factory": value.default_factory}
                )
                setattr(self._cls, name, known_field(init=value.init, **makes))
            known = dataclass(init=False, repr=False, eq=False)(self._cls)
            owner.__dataclass_fields__ = known.__dataclass_fields__
            return owner.__dataclass_fields__


def names_of(value: object) -> tuple[str, ...]:
    """The names of the fields by which a data object is made; none for anything else."""
    names: tuple[str, ...] = getattr(type(value), "__match_args__", ())
    return names


__all__ = ["field", "immutable", "mutable", "names_of", "replace"]
