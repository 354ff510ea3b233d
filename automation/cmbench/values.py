"""``immutable``: the decorator of the engine's data classes.

A type checker sees ``dataclasses.dataclass(frozen=True, ...)`` and refuses every assignment to a
field. At run time nothing guards them, and the methods of a class are made by one small program:
``dataclasses`` takes four times as long, for each class, at the start of every command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
else:
    from dataclasses import MISSING, Field, dataclass
    from operator import attrgetter

    def immutable(*, frozen, slots, eq, repr):  # noqa: A002
        """``dataclass`` without the guards that a type checker has already checked.

        The class has only the fields that it names itself, and no ``__post_init__``.
        """

        def decorate(cls):
            names = tuple(cls.__annotations__)
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
            left_out = {*names, "__dict__", "__weakref__"}
            body = {key: value for key, value in vars(cls).items() if key not in left_out}
            body["__init__"] = _init(names, defaults)
            body |= _compared(names) if eq else {}
            body |= {"__repr__": _repr} if repr else {}
            body["__dataclass_fields__"] = _Fields(cls)
            return type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": names})

        return decorate

    def _init(names, defaults):
        """``__init__`` of a class whose fields are ``names``."""
        scope = {"MISSING": MISSING}
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
        exec(f"def __init__(self, {', '.join(arguments)}):\n{''.join(lines) or ' pass'}", scope)
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
        """``__dataclass_fields__`` of a class, made when ``replace`` or ``asdict`` asks for it."""

        def __init__(self, cls):
            self._cls = cls

        def __get__(self, instance, owner):
            known = dataclass(init=False, repr=False, eq=False)(self._cls)
            owner.__dataclass_fields__ = known.__dataclass_fields__
            return owner.__dataclass_fields__


__all__ = ["immutable"]
