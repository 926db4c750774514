"""A class made by `unshuffle.frozen.dataclass` behaves as one made by the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar

import pytest
from pyspark import cloudpickle

import unshuffle
from unshuffle import frozen


def _point(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        origin: ClassVar[int] = 0
        x: float
        y: float = 2.0
        label: str = field(default="p", compare=False)
        secret: str = field(default="s", repr=False)
        tags: tuple[str, ...] = field(default_factory=lambda: ("t",))
        made: list[int] = field(init=False, compare=False, default_factory=list)
        sum: float = field(init=False, compare=False)
        scale: int = field(default=1, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.x + self.y)

    return Point


def _nearby(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class Nearby(_point(dataclass)):  # type: ignore[misc]
        distance: float = 0.5

    return Nearby


def _own_methods(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class OwnMethods:
        x: float
        y: float = 0.0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x == other.x

        def __hash__(self) -> int:
            return hash(self.x)

        def __repr__(self) -> str:
            return "mine"

    return OwnMethods


def _own_equality(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class OwnEquality:
        x: float

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and abs(self.x) == abs(other.x)

    return OwnEquality


def _by_identity(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True, eq=False)
    class ByIdentity:
        x: float

    return ByIdentity


def _named_only(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class NamedOnly:
        x: float = 1.0
        y: float = 2.0

    return NamedOnly


def _empty(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    return Empty


def _recursive(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class Recursive:
        inner: list[Any] = field(default_factory=list, hash=False)

    return Recursive


MADE_BY = [_point, _nearby, _own_methods, _own_equality, _by_identity, _named_only, _empty, _recursive]
VALUES = [
    {},
    {"x": 1.0},
    {"x": 1.0, "y": 3.0},
    {"x": 1.0, "label": "q"},
    {"x": 1.0, "secret": "t"},
]


@pytest.mark.parametrize("made_by", MADE_BY)
def test_behaves_as_the_standard_library_makes_it(made_by: Callable[[Any], Any]) -> None:
    ours, standard = made_by(frozen.dataclass), made_by(dataclasses.dataclass)
    assert _shape(ours) == _shape(standard)
    values = [each for each in VALUES if _accepts(standard, each)]
    assert values == [each for each in VALUES if _accepts(ours, each)]
    a, b = [ours(**each) for each in values], [standard(**each) for each in values]
    assert list(map(repr, a)) == list(map(repr, b))
    assert [[x == y for x in a] for y in a] == [[x == y for x in b] for y in b]
    assert [ours(**each) == value for each, value in zip(values, a, strict=True)] == [
        standard(**each) == value for each, value in zip(values, b, strict=True)
    ]
    assert all(x != y for x in a for y in b)
    if ours.__hash__ is not object.__hash__:
        assert list(map(hash, a)) == list(map(hash, b))
    assert [repr(copy.copy(each)) for each in a] == list(map(repr, a))


def _shape(made: Any) -> Any:
    parameters = [
        (each.name, each.kind, each.annotation, each.default is each.empty)
        for each in inspect.signature(made).parameters.values()
    ]
    names = [each.name for each in dataclasses.fields(made)]
    return made.__qualname__, parameters, names, made.__match_args__, made.__slots__, made.__init__.__qualname__


def _accepts(made: Any, values: dict[str, Any]) -> bool:
    try:
        made(**values)
    except TypeError:
        return False
    return True


def test_arguments_may_be_in_order() -> None:
    point = _point(frozen.dataclass)
    assert point(1.0, 2.0, "q", "t", ()) == point(x=1.0, y=2.0, secret="t", tags=())
    assert point(1.0).sum == 3.0
    assert point(1.0).made is not point(1.0).made
    with pytest.raises(TypeError, match="positional argument"):
        point(1.0, 2.0, "q", "t", (), 5)


def test_replace_makes_another() -> None:
    near = _nearby(frozen.dataclass)(1.0, distance=3.0, scale=4)
    assert (replace(near, y=5.0).sum, replace(near, y=5.0).scale, near.sum) == (6.0, 4, 3.0)


def test_nothing_is_assigned_or_deleted() -> None:
    point = _point(frozen.dataclass)(1.0)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2.0
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        point.other = 2.0
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_a_value_that_holds_itself_is_shown() -> None:
    value = _recursive(frozen.dataclass)()
    value.inner.append(value)
    assert repr(value).endswith("Recursive(inner=[...])")


def test_other_classes_are_the_standard_librarys() -> None:
    @frozen.dataclass
    class Counter:
        n: int = 0

    @frozen.dataclass(frozen=True)
    class Unslotted:
        n: int = 0

    counter = Counter()
    counter.n += 1
    assert counter == Counter(1)
    assert Unslotted(1).__dict__ == {"n": 1}


@frozen.dataclass(frozen=True, slots=True)
class Sent:
    x: float
    tags: list[str] = field(default_factory=list)


def test_values_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent(1.0, ["a"]))) == Sent(1.0, ["a"])


def test_a_class_is_pickled_by_value() -> None:
    """Spark's workers do not have unshuffle: what they run is sent to them with its classes."""
    local = _recursive(frozen.dataclass)
    cloudpickle.register_pickle_by_value(unshuffle)  # type: ignore[no-untyped-call]
    try:
        sent = cloudpickle.dumps((local, local([1])))  # type: ignore[no-untyped-call]
    finally:
        cloudpickle.unregister_pickle_by_value(unshuffle)  # type: ignore[no-untyped-call]
    program = (
        "import pickle, sys; made, value = pickle.load(sys.stdin.buffer); "
        "assert 'unshuffle' not in sys.modules; assert value == made([1]) != made(); print(value)"
    )
    shown = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True).stdout
    assert shown.decode().strip().endswith("Recursive(inner=[1])")
