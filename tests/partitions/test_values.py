"""Values in Spark's order, their successors, and values between others."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest

from tests.support.brute_partitions import DAY, NOON, POOLS, TYPES, UTC, compare_values
from unshuffle.partitions import Cut, KeyColumn, KeyOrder
from unshuffle.partitions.values import after_beginning, comparable, following, from_number, number, share_of_text

DIRECTIONS = list(product((False, True), (False, True)))


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize(("descending", "nulls_first"), DIRECTIONS)
def test_every_pair_of_values_compares_as_in_spark(type: pa.DataType, descending: bool, nulls_first: bool) -> None:
    key = KeyColumn(type, descending, nulls_first)
    code = comparable(key)
    for a, b in product([None, *POOLS[type]], repeat=2):
        found = (code(a) > code(b)) - (code(a) < code(b))
        assert found == compare_values(key, a, b), (a, b)


def test_strings_compare_by_their_utf8_bytes_and_not_as_java_does() -> None:
    code = comparable(KeyColumn(pa.string()))
    assert code("\uffff") < code("\U00010000")  # in UTF-16 the second begins with a surrogate and compares less


def test_long_decimals_are_not_rounded() -> None:
    one, other = Decimal("1" * 38), Decimal("1" * 37 + "2")
    for descending in (False, True):
        code = comparable(KeyColumn(pa.decimal128(38, 0), descending))
        assert code(other) < code(one) if descending else code(one) < code(other)
    assert following(KeyColumn(pa.decimal128(38, 0)), one) == (other,)
    assert from_number(pa.decimal128(38, 2), number(pa.decimal128(38, 2), Decimal("-1.25"))) == Decimal("-1.25")


def test_a_timestamp_is_the_same_instant_in_every_zone() -> None:
    code = comparable(KeyColumn(pa.timestamp("us", "UTC")))
    noon = NOON.replace(tzinfo=UTC)
    assert code(noon) == code(noon.astimezone(datetime.timezone(datetime.timedelta(hours=5))))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (pa.int64(), "1"),
        (pa.int64(), True),
        (pa.int64(), 1.0),
        (pa.string(), b"a"),
        (pa.bool_(), 1),
        (pa.date32(), NOON),
        (pa.timestamp("us", "UTC"), NOON),
        (pa.timestamp("us"), NOON.replace(tzinfo=UTC)),
        (pa.float64(), Decimal(1)),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_rejected(type: pa.DataType, value: object) -> None:
    with pytest.raises(TypeError, match="is not of type"):
        comparable(KeyColumn(type))(value)


def test_nested_types_cannot_be_keys() -> None:
    with pytest.raises(TypeError, match="cannot be range keys"):
        comparable(KeyColumn(pa.list_(pa.int64())))


def test_an_unknown_type_is_inferred_from_its_values() -> None:
    code = comparable(KeyColumn(None))
    assert code(1) < code(2)
    assert code(DAY) < code(DAY + datetime.timedelta(1))
    assert code(NOON) < code(NOON + datetime.timedelta(1))


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize(("descending", "nulls_first"), DIRECTIONS)
def test_there_is_no_value_between_a_value_and_its_successor(
    type: pa.DataType, descending: bool, nulls_first: bool
) -> None:
    key = KeyColumn(type, descending, nulls_first)
    code = comparable(key)
    for value in (None, *POOLS[type]):
        match following(key, value):
            case None:
                assert descending
                assert type in (pa.string(), pa.binary())
            case ():
                assert all(code(other) <= code(value) for other in (None, *POOLS[type]))
            case (after,):
                assert code(value) < code(after)
                assert not any(code(value) < code(other) < code(after) for other in (None, *POOLS[type]))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (KeyColumn(pa.int64()), 5, (6,)),
        (KeyColumn(pa.int64(), descending=True), 5, (4,)),
        (KeyColumn(pa.int8()), 127, ()),
        (KeyColumn(pa.int8(), nulls_first=False), 127, (None,)),
        (KeyColumn(pa.string()), "b", ("b\0",)),
        (KeyColumn(pa.float64()), 0.0, (5e-324,)),
        (KeyColumn(pa.float64(), descending=True, nulls_first=False), -math.inf, (None,)),
        (KeyColumn(pa.decimal128(5, 2)), Decimal("1.5"), (Decimal("1.51"),)),
        (KeyColumn(pa.date32()), DAY, (datetime.date(2024, 3, 1),)),
        (KeyColumn(pa.bool_()), False, (True,)),
        (KeyColumn(pa.bool_()), True, ()),
        (KeyColumn(pa.int64()), None, (-(2**63),)),
        (KeyColumn(pa.string()), None, ("",)),
    ],
    ids=str,
)
def test_following(key: KeyColumn, value: object, expected: tuple[object, ...]) -> None:
    assert following(key, value) == expected


def test_nan_follows_infinity() -> None:
    (found,) = following(KeyColumn(pa.float64()), math.inf) or ()
    assert math.isnan(found)
    assert following(KeyColumn(pa.float64(), descending=True), found) == (math.inf,)


def test_the_next_float_is_representable() -> None:
    (found,) = following(KeyColumn(pa.float32()), 1.0) or ()
    assert found == 1.0 + 2**-23


def test_the_successor_of_a_last_value_increments_the_column_before() -> None:
    order = KeyOrder((KeyColumn(pa.int64()), KeyColumn(pa.bool_())))
    assert order.boundary(Cut((3, False), after=True)) == (3, True)
    assert order.boundary(Cut((3, True), after=True)) == (4,)
    assert order.boundary(Cut((2**63 - 1, True), after=True)) == ()


def test_the_successor_of_a_prefix() -> None:
    assert after_beginning("ab") == "ac"
    assert after_beginning("a\U0010ffff") == "b"
    assert after_beginning("\ud7ff") == "\ue000"  # between them are surrogates, which are not characters
    assert after_beginning("\U0010ffff") is None


def test_shares_of_strings() -> None:
    assert share_of_text("a", "c", "b") == pytest.approx(0.5)
    assert share_of_text("http://a", "http://c", "http://b") == pytest.approx(0.5)
    assert share_of_text(b"\x00", b"\xff", b"\x80") == pytest.approx(0.5, abs=0.01)
    assert share_of_text("a", "a", "a") == 0.5
