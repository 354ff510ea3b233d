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

    def immutable(*, frozen, slots, eq, repr):  # noqa: A002
        """``dataclass`` without the guards that a type checker has already checked.

        The class has only the fields that it names itself, and no ``__post_init__``.
        """

        def decorate(cls):
            names = tuple(cls.__annotations__)
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
            left_out = {*names, "__dict__", "__weakref__"}
            body = {key: value for key, value in vars(cls).items() if key not in left_out}
            body |= _methods(cls.__name__, names, defaults, eq, repr)
            body["__dataclass_fields__"] = _Fields(cls)
            return type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": names})

        return decorate

    def _methods(title, names, defaults, eq, repr_too):
        """The methods of a class whose fields are ``names``."""
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
        source = f"def __init__(self, {', '.join(arguments)}):\n{''.join(lines) or ' pass'}\n"
        if eq:
            mine, other = (
                f"({''.join(f'{who}.{n}, ' for n in names)})" for who in ("self", "other")
            )
            source += f"def __hash__(self): return hash({mine})\n"
            source += "def __eq__(self, other):\n if self.__class__ is not other.__class__:\n"
            source += f"  return NotImplemented\n return {mine} == {other}\n"
        if repr_too:
            shown = ", ".join(f"{name}={{self.{name}!r}}" for name in names)
            source += f"def __repr__(self): return f'{title}({shown})'\n"
        made = {}
        exec(source, scope, made)
        return made

    class _Fields:
        """``__dataclass_fields__`` of a class, made when ``replace`` or ``asdict`` asks for it."""

        def __init__(self, cls):
            self._cls = cls

        def __get__(self, instance, owner):
            known = dataclass(init=False, repr=False, eq=False)(self._cls)
            owner.__dataclass_fields__ = known.__dataclass_fields__
            return owner.__dataclass_fields__


__all__ = ["immutable"]
