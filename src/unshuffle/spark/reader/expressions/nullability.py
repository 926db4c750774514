"""Which expressions may be NULL."""

from __future__ import annotations

from unshuffle.plan.expressions import AggregateCall, Call, Exists, Expression, Literal, Opaque, Ref, WindowCall
from unshuffle.plan.functions.aggregates import aggregate_facts
from unshuffle.plan.functions.windows import RANKINGS


def is_nullable(expression: Expression) -> bool:
    """Whether an expression may be NULL. If unknown, it may."""
    match expression:
        case Ref(column):
            return column.nullable
        case Literal(value):
            return value is None
        case Exists() | Call(function="isnull" | "isnotnull" | "<=>" | "isnan"):
            return False
        case Call(function="coalesce", arguments=arguments):
            return all(map(is_nullable, arguments))
        case Call(function="=" | "<>" | "<" | "<=" | ">" | ">=" | "and" | "or" | "not", arguments=arguments):
            return any(map(is_nullable, arguments))
        case Opaque(nullable=nullable):
            return nullable
        case AggregateCall(facts=facts):
            return not facts.never_null
        case WindowCall(call=call):
            return call.function not in RANKINGS and not aggregate_facts(call.function).never_null
        case _:
            return True
