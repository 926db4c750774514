"""Does a script run code of the user? Nobody knows how long such code takes, or what running it twice would do."""

from __future__ import annotations

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
    expressions_of,
)
from unshuffle.plan.logical import walk as operators


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
