"""`dataclass`, which makes frozen, slotted classes as the standard library does, in a third of the time.

The package has some three hundred of them, and the standard library compiles six methods for each, one by one: half a
millisecond a class, a fifth of the time that `unshuffle explain` takes. Here the four methods that depend on the fields are
compiled at once, and the others are shared by all classes. Fields, slots and `replace` are the standard library's, and so is
every class that is not both frozen and slotted. `InitVar` is not supported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> type | Callable[[type], type]:
        def made(cls: type) -> type:
            if frozen and slots:
                return _frozen(cls, eq, kw_only)
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)

        return made if cls is None else made(cls)


def _frozen(cls: type, eq: bool, kw_only: bool) -> type:
    own = cls.__dict__
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or else the standard library adds a signature, which takes long to find
    # Not frozen to the standard library, for then it would compile a `__setattr__` and a `__delattr__`.
    made: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only, slots=True)
    all_fields = fields(made)
    scope: dict[str, Any] = {"__name__": made.__module__, "MISSING": MISSING, "_set": object.__setattr__}
    texts = {"__init__": _init(made, all_fields, scope), "__repr__": _repr(all_fields)}
    if eq:
        texts |= {"__eq__": _eq(all_fields), "__hash__": _hash(all_fields)}
    missing = {name: text for name, text in texts.items() if own.get(name) is None}
    exec("\n".join(missing.values()), scope)
    for name in missing:
        method = scope[name]
        method.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, recursive_repr()(method) if name == "__repr__" else method)
    if "__init__" in missing:
        types = {field.name: field.type for field in all_fields if field.init}
        made.__init__.__annotations__ = {**types, "return": None}
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]


def _init(made: type, all_fields: Iterable[Field[Any]], scope: dict[str, Any]) -> str:
    """The text of `__init__`. What it refers to is put into `scope`."""
    positional, named, body = ["self"], ["*"], ["pass"]
    for field in all_fields:
        name = value = field.name
        default = ""
        if field.default is not MISSING:
            default = f"_default_{name}"
            scope[default] = field.default
            value = name if field.init else default
        elif field.default_factory is not MISSING:
            default = "MISSING"
            scope[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is MISSING else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            continue  # `__post_init__` sets it
        if field.init:
            (named if field.kw_only else positional).append(f"{name}={default}" if default else name)
        body.append(f"_set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = positional + named if len(named) > 1 else positional
    return f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body)


def _repr(all_fields: Iterable[Field[Any]]) -> str:
    names = [field.name for field in all_fields if field.repr]
    values = ", ".join(f"{name}=%r" for name in names)
    return f"def __repr__(self): return self.__class__.__qualname__ + '({values})' % {_tuple('self', names)}"


def _eq(all_fields: Iterable[Field[Any]]) -> str:
    names = [field.name for field in all_fields if field.compare]
    return (
        "def __eq__(self, other):\n"
        f" if other.__class__ is self.__class__: return {_tuple('self', names)} == {_tuple('other', names)}\n"
        " return NotImplemented"
    )


def _hash(all_fields: Iterable[Field[Any]]) -> str:
    names = [field.name for field in all_fields if (field.compare if field.hash is None else field.hash)]
    return f"def __hash__(self): return hash({_tuple('self', names)})"


def _tuple(of: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{of}.{name}," for name in names) + ")"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: Iterable[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
