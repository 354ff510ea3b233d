"""``dataclass``: frozen classes with slots that cost next to nothing until the first is made.

The methods of a class are programs that ``dataclasses`` writes and compiles: of 100 ms of CPU that
the start of a session took, 44 were theirs, most of them for classes which it never makes. Here
they are written when the first instance is made, or somebody asks for the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    def dataclass(*, frozen, slots):
        """As in ``dataclasses``, but without ``ClassVar``, ``super()`` and ``init=False``."""
        if not (frozen and slots):
            raise TypeError("a class that is not frozen, or has no slots, is made by dataclasses")

        def decorate(cls):
            left_out = ("__dict__", "__weakref__")
            body = {key: value for key, value in vars(cls).items() if key not in left_out}
            return _Later(cls, body).made

        return decorate

    class _Later:
        """``__dataclass_fields__`` of a class whose methods are still to be written."""

        def __init__(self, cls, body):
            self._cls, self._body = cls, body
            self._slots = tuple(body.get("__annotations__", ()))

            def __init__(instance, *args, **kwargs):  # noqa: N807
                self.write()
                self.made.__init__(instance, *args, **kwargs)

            kept = {key: value for key, value in body.items() if key not in self._slots}
            now = {
                "__slots__": self._slots,
                "__init__": __init__,
                "__reduce__": _reduce,
                "__dataclass_fields__": self,
            }
            self.made = type(cls)(cls.__name__, cls.__bases__, {**kept, **now})

        def __get__(self, instance, owner):
            return self.write()

        def write(self):
            """Give the class its methods; two threads that do so at once do the same."""
            copy = type(self._cls)(self._cls.__name__, self._cls.__bases__, dict(self._body))
            written = vars(dataclasses.dataclass(frozen=True)(copy))
            left_out = (*self._slots, "__dict__", "__weakref__", "__doc__")
            for key, value in written.items():
                if key not in left_out and self._body.get(key, self) is not value:
                    setattr(self.made, key, value)
            return written["__dataclass_fields__"]

    def _reduce(instance):
        """Copies and pickles are made by the constructor: nothing else sets a frozen field."""
        names = (member.name for member in dataclasses.fields(instance))
        return type(instance), tuple(getattr(instance, name) for name in names)


__all__ = ["dataclass"]
