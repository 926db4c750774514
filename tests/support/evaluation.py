"""Evaluates logical plans on a few rows in plain Python, to compare thousands of random plans with their rewrites.

Values are integers and NULL. The evaluation follows SQL's definitions operator by operator. It uses none of the rules, and
is simple and slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import AggregateCall, Call, Case, Cast, Expression, Literal, Ref, WindowCall
from unshuffle.plan.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    Values,
    Window,
)

Row = Mapping[Column, Any]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def result(plan: Plan, tables: Tables) -> Counter[tuple[Any, ...]]:
    """The rows of a plan, each with its number of occurrences."""
    return Counter(tuple(row[column] for column in plan.columns) for row in rows(plan, tables))


def rows(plan: Plan, tables: Tables) -> list[Row]:
    def below(child: Plan) -> list[Row]:
        return rows(child, tables)

    match plan:
        case Scan(label=label, columns=columns):
            return [{column: row[column.name] for column in columns} for row in tables[label]]
        case Values(rows=given, columns=columns):
            return [{c: value(e, {}) for c, e in zip(columns, each, strict=True)} for each in given]
        case Project(child, outputs):
            return [{column: value(e, row) for column, e in outputs} for row in below(child)]
        case Filter(child, predicate):
            return [row for row in below(child) if value(predicate, row) is True]
        case GroupBy(child, keys, aggregates):
            return grouped(below(child), keys, aggregates)
        case GroupingSets():
            return grouping_sets(plan, below(plan.child))
        case Expand(child, keys, sets, number, repeated):
            return [
                {**row, **{out: row[source] if source in one else None for out, source in keys}, number: place}
                for row in below(child)
                for place, one in enumerate(sets)
                if place == 0 or repeated is None or value(repeated, row) is True
            ]
        case Distinct(child):
            return unique(below(child), child.columns)
        case Window(child, calls):
            return windowed(below(child), calls)
        case Sort(child, order):
            return ordered(below(child), order)
        case Limit(child, count, offset):
            found = below(child)[offset:]
            return found if count is None else found[:count]
        case Join():
            return joined(plan, below(plan.left), below(plan.right))
        case SetOperation():
            return combined(plan, [below(each) for each in plan.inputs])
        case Process() | Reduce():
            return user_code(plan, below(plan.child))
        case Reference(rowset, columns):
            pairs = list(zip(columns, rowset.columns, strict=True))
            return [{new: row[old] for new, old in pairs} for row in below(rowset)]
        case Shared(child=child):
            return below(child)
        case _:
            raise NotImplementedError(type(plan).__name__)


# --- expressions

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "pmod": lambda a, b: a % b,
}


def value(expression: Expression, row: Row) -> Any:
    match expression:
        case Ref(column=column):
            return row[column]
        case Literal(value=constant):
            return constant
        case Cast(operand=operand):
            return value(operand, row)
        case Case(branches=branches, otherwise=otherwise):
            for when, then in branches:
                if value(when, row) is True:
                    return value(then, row)
            return None if otherwise is None else value(otherwise, row)
        case Call(function=name, arguments=arguments):
            return call(name, [value(each, row) for each in arguments])
        case _:
            raise NotImplementedError(str(expression))


def call(name: str, values: list[Any]) -> Any:
    match name:
        case "and":
            return False if False in values else None if None in values else True
        case "or":
            return True if any(v is True for v in values) else None if None in values else False
        case "not":
            return None if values[0] is None else not values[0]
        case "isnull":
            return values[0] is None
        case "isnotnull":
            return values[0] is not None
        case "<=>":
            return values[0] == values[1]
        case "in":
            return call("or", [call("=", [values[0], each]) for each in values[1:]])
        case "between":
            return call("and", [call(">=", values[:2]), call("<=", [values[0], values[2]])])
        case "least" | "greatest":
            known = [v for v in values if v is not None]
            return (min if name == "least" else max)(known, default=None)
        case "xxhash64":
            return hash(tuple(values))
        case "coalesce":
            return next((v for v in values if v is not None), None)
        case _:
            return None if None in values else _COMPARE[name](*values)


def aggregate(call: AggregateCall, group: Sequence[Row]) -> Any:
    if call.where is not None:
        group = [row for row in group if value(call.where, row) is True]
    tuples = [tuple(value(each, row) for each in call.arguments) for row in group]
    found = [each for each in tuples if None not in each]
    if call.distinct:
        found = list(dict.fromkeys(found))
    match call.function:
        case "count":
            return len(found)
        case "sum":
            return sum(each[0] for each in found) if found else None
        case "min":
            return min((each[0] for each in found), default=None)
        case "max":
            return max((each[0] for each in found), default=None)
        case _:
            raise NotImplementedError(call.function)


# --- operators


def _key(row: Row, columns: Iterable[Column]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def unique(given: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    return list({_key(row, columns): row for row in given}.values())


def grouped(
    given: Sequence[Row], keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]
) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
    for row in given:
        groups.setdefault(_key(row, keys), []).append(row)
    return [
        {**dict(zip(keys, key, strict=True)), **{column: aggregate(each, group) for column, each in aggregates}}
        for key, group in groups.items()
    ]


def grouping_sets(plan: GroupingSets, given: Sequence[Row]) -> list[Row]:
    made: list[Row] = []
    for one in plan.sets:
        # For empty input, Spark returns a row for the empty grouping set only if it is the only set.
        if not one and not given and len(plan.sets) > 1:
            continue
        for row in grouped(given, one, plan.aggregates):
            made.append({**row, **{out: row.get(source) for out, source in plan.keys}})
    return made


def _sort_key(found: Any, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
    if found is None:
        return (0 if nulls_first else 2,)
    return (1, -found if descending else found)


def ordered(given: Sequence[Row], order: Sequence[Any]) -> list[Row]:
    def place(row: Row) -> list[Any]:
        return [_sort_key(value(key.expression, row), key.descending, key.nulls_first) for key in order]

    return sorted(given, key=place)


def windowed(given: Sequence[Row], calls: Sequence[tuple[Column, WindowCall]]) -> list[Row]:
    made: list[dict[Column, Any]] = [dict(row) for row in given]
    for column, window in calls:
        groups: dict[tuple[Any, ...], list[dict[Column, Any]]] = {}
        for row in made:
            groups.setdefault(tuple(value(part, row) for part in window.partition), []).append(row)
        for group in groups.values():
            if isinstance(window.call, AggregateCall) and window.call.function == "first_value":
                first = ordered(group, window.order)[0]
                for row in group:
                    row[column] = value(window.call.arguments[0], first)
            elif isinstance(window.call, AggregateCall) and window.frame is not None:
                assert window.frame == "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
                for place, row in enumerate(before_now := ordered(group, window.order), 1):
                    row[column] = aggregate(window.call, before_now[:place])  # type: ignore[index]
            elif isinstance(window.call, AggregateCall):
                whole = aggregate(window.call, group)
                for row in group:
                    row[column] = whole
            else:
                assert window.call.function in ("row_number", "rank")
                number, before = 0, None
                for place, row in enumerate(ordered(group, window.order), 1):
                    here = [value(key.expression, row) for key in window.order]
                    if window.call.function == "row_number" or here != before:
                        number = place
                    before = here
                    row[column] = number  # type: ignore[index]
    return list(made)


def joined(plan: Join, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    def matches(one: Row, other: Row) -> bool:
        return plan.condition is None or value(plan.condition, {**one, **other}) is True

    if plan.kind in (JoinKind.SEMI, JoinKind.ANTI):
        has_match = plan.kind is JoinKind.SEMI
        return [one for one in left if any(matches(one, other) for other in right) is has_match]
    pairs = [(i, j) for (i, one), (j, other) in product(enumerate(left), enumerate(right)) if matches(one, other)]
    made: list[Row] = [{**left[i], **right[j]} for i, j in pairs]
    if plan.kind.extends_right:
        nulls = dict.fromkeys(plan.right.columns)
        made += [{**row, **nulls} for i, row in enumerate(left) if i not in {i for i, _ in pairs}]
    if plan.kind.extends_left:
        nulls = dict.fromkeys(plan.left.columns)
        made += [{**nulls, **row} for j, row in enumerate(right) if j not in {j for _, j in pairs}]
    return made


def combined(plan: SetOperation, inputs: Sequence[Sequence[Row]]) -> list[Row]:
    sides = [
        [dict(zip(plan.columns, _key(row, each.columns), strict=True)) for row in given]
        for each, given in zip(plan.inputs, inputs, strict=True)
    ]
    if plan.kind is SetKind.UNION:
        everything: list[Row] = [row for side in sides for row in side]
        return everything if plan.all else unique(everything, plan.columns)
    one, other = (Counter(_key(row, plan.columns) for row in side) for side in sides)
    if plan.kind is SetKind.INTERSECT:
        counts = one & other if plan.all else Counter({key: 1 for key in one if key in other})
    else:
        counts = one - other if plan.all else Counter({key: 1 for key in one if key not in other})
    return [dict(zip(plan.columns, key, strict=True)) for key in counts.elements()]


def user_code(plan: Process | Reduce, given: Sequence[Row]) -> list[Row]:
    """A processor that emits every row twice, and a reducer that emits each group once, each with the sum of its
    input."""
    repeated = dict(plan.readonly)
    if isinstance(plan, Process):
        groups = [[row] for row in given for _ in range(2)]
    else:
        by_key: dict[tuple[Any, ...], list[Row]] = {}
        for row in given:
            by_key.setdefault(_key(row, plan.keys), []).append(row)
        groups = list(by_key.values())
    return [
        {
            column: group[0][repeated[column]]
            if column in repeated
            else sum(row[seen] or 0 for row in group for seen in plan.child.columns)
            for column in plan.columns
        }
        for group in groups
    ]
