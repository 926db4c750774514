"""Macros: `#DEFINE hours(ms) ms / 3600000.0`, used as `hours(end - start)`.

A macro is an expression, not a text: an argument stays one operand whatever operators surround it in the macro, and an error
in the expanded expression is shown at the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.errors import SyntaxProblem

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import QueryContext


def expanded(query: QueryContext, call: exp.Expr, inside: tuple[str, ...] = ()) -> exp.Expr:
    """The expression that a call of a macro stands for. `inside` are the macros whose bodies it is in."""
    macro = query.macros[call.name.lower()]
    if macro.name in inside:
        raise SyntaxProblem(f"the macro {macro.name!r} uses itself", query.name_span(call))
    arguments = call.expressions
    if len(arguments) != len(macro.parameters):
        message = f"the macro {macro.name!r} takes {len(macro.parameters)} argument(s), but {len(arguments)} are given"
        raise SyntaxProblem(message, query.name_span(call))
    values = {name.lower(): value for name, value in zip(macro.parameters, arguments, strict=True)}
    body = macro.body.copy()
    for part in body.walk():
        part.meta.pop("start", None)  # a place in the definition, which may be in another file
    body = _with_macros(query, body, call, (*inside, macro.name))

    def substituted(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in values:
            return exp.Paren(this=values[part.name.lower()].copy())
        if isinstance(part, exp.Column) and not part.args.get("db") and part.table.lower() in values:
            return _member(values[part.table.lower()], part.this)
        if isinstance(part, exp.Dot) and isinstance(part.this, exp.Identifier) and part.this.name.lower() in values:
            return exp.Dot(this=exp.Paren(this=values[part.this.name.lower()].copy()), expression=part.expression)
        return part

    result: exp.Expr = exp.Paren(this=body.transform(substituted))
    result.meta.update({key: value for key, value in call.meta.items() if key in ("start", "end")})
    return result


def _member(value: exp.Expr, name: exp.Expr) -> exp.Expr:
    """`parameter.name`: a column of a rowset, if the argument is the name of one, or a member of the argument."""
    if isinstance(value, exp.Column) and not value.table:
        return exp.Column(this=name.copy(), table=value.this.copy())
    return exp.Dot(this=exp.Paren(this=value.copy()), expression=name.copy())


def _with_macros(query: QueryContext, body: exp.Expr, call: exp.Expr, inside: tuple[str, ...]) -> exp.Expr:
    """A macro's body with the macros that it uses expanded."""

    def inner(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Anonymous) or part.name.lower() not in query.macros:
            return part
        part.meta.update({key: value for key, value in call.meta.items() if key in ("start", "end")})
        return expanded(query, part, inside)

    result: exp.Expr = body.transform(inner)
    return result
