"""Does a script run code of the user? Nobody knows how long such code takes, or what running it twice would do.

Spark computes aggregates of the user over sorted groups, in a Python worker, and then computes no other aggregate beside
them. Where a query has both, or FILTER or DISTINCT or no groups, the values of each group are collected into a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Exists,
    Expression,
    InSubquery,
    Opaque,
    ScalarSubquery,
    Template,
    walk,
)
from unshuffle.plan.functions.signatures import find
from unshuffle.plan.logical import (
    Combine,
    FileTarget,
    Foreign,
    Plan,
    Process,
    Reduce,
    Scan,
    Script,
    UserClass,
    UserFunction,
    expressions_of,
)
from unshuffle.plan.logical import walk as operators


def user_functions_in(expression: Expression) -> Iterator[UserFunction]:
    """The functions and aggregates of the user's that a script's expression calls."""
    for part in walk(expression):
        code = part if isinstance(part, Opaque) else part.opaque if isinstance(part, AggregateCall) else None
        if code is not None and isinstance(code.code, UserFunction):
            yield code.code


def is_user_aggregate(call: Expression) -> bool:
    """An aggregate that a script names, and not one that only Spark knows."""
    return isinstance(call, AggregateCall) and call.opaque is not None and isinstance(call.opaque.code, UserFunction)


def collects_lists(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Are the values of user aggregates collected into lists?"""
    calls = [call for _, call in aggregates]
    return any(map(is_user_aggregate, calls)) and not (keys and all(map(_is_plain, calls)))


def runs_in_python(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Does Spark compute the aggregates over sorted groups in a Python worker?"""
    is_python = any(call.opaque is not None and call.opaque.is_python for _, call in aggregates)
    return is_python and not collects_lists(keys, aggregates)


def _is_plain(call: AggregateCall) -> bool:
    return is_user_aggregate(call) and not call.distinct and call.where is None


def runs_user_code(script: Script) -> bool:
    """Also where only Spark knows what runs."""
    targets = (output.target for output in script.outputs)
    if any(isinstance(target, FileTarget) and isinstance(target.format, UserClass) for target in targets):
        return True
    return any(_has_user_code(output.plan) for output in script.outputs)


def _has_user_code(plan: Plan) -> bool:
    return any(_is_user_code(node) or any(map(_calls_user_code, expressions_of(node))) for node in operators(plan))


def _is_user_code(node: Plan) -> bool:
    return isinstance(node, Process | Reduce | Combine | Foreign) or (
        isinstance(node, Scan) and isinstance(node.files.format, UserClass)
    )


def _calls_user_code(expression: Expression) -> bool:
    return any(_is_call_of_user_code(part) for part in walk(expression))


def _is_call_of_user_code(part: Expression) -> bool:
    match part:
        case Opaque() | Template():
            return True
        case AggregateCall(function=function, opaque=opaque):
            return opaque is not None or find(function) is None
        case Call(function=function):
            return function.isidentifier() and find(function) is None
        case ScalarSubquery(plan=plan) | Exists(plan=plan) | InSubquery(plan=plan):
            return _has_user_code(plan)
        case _:
            return False
