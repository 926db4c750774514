"""The parameters of a view: `VIEW top(n int, region string = "north") AS ...`, used as `FROM top(5)` or `top(n = 5)`."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.errors import NameProblem, Span, SyntaxProblem, did_you_mean
from unshuffle.language.bind.statements.columns import type_named
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse.parameters import ConstantValue, Parameters, constant
from unshuffle.language.parse.statements import Argument, View, ViewParameter
from unshuffle.language.parse.values import convert


def view_values(
    view: View, arguments: Sequence[Argument], here: Parameters, script: Parameters, span: Span
) -> dict[str, ConstantValue]:
    """The values of a view's parameters at one use, by their names in lower case. Arguments are constants with the
    parameters of the place of the use, defaults with those of the script."""
    given = _by_name(view, arguments, span)
    values: dict[str, ConstantValue] = {}
    for parameter in view.parameters:
        name = parameter.name.text
        argument = given.get(name.lower(), parameter.default)
        if argument is None:
            hint = f"write {view.name.text}({', '.join(_shown(each) for each in view.parameters)})"
            raise NameProblem(f"the parameter {name!r} of the view {view.name.text!r} has no value", span, hint)
        known = here if name.lower() in given else script
        type = type_named(parameter.type, UserModules(None, ()))
        what = f"the parameter {name!r} of the view {view.name.text!r}"
        value = constant(argument.value, known, argument.span).value
        values[name.lower()] = ConstantValue(convert(value, type, what, argument.span), type)
    return values


def _by_name(view: View, arguments: Sequence[Argument], span: Span) -> dict[str, Argument]:
    names = [parameter.name.text.lower() for parameter in view.parameters]
    given: dict[str, Argument] = {}
    for place, argument in enumerate(arguments):
        if argument.name is None and place >= len(names):
            takes = f"takes {len(names)} argument(s)" if names else "has no parameters"
            raise SyntaxProblem(f"the view {view.name.text!r} {takes}, but {len(arguments)} are given", span)
        if argument.name is None and any(each.name is not None for each in arguments[:place]):
            raise SyntaxProblem("an argument without a name cannot follow one with a name", argument.span)
        name = names[place] if argument.name is None else argument.name.lower()
        if name not in names:
            known = did_you_mean(argument.name or "", [parameter.name.text for parameter in view.parameters])
            raise NameProblem(f"the view {view.name.text!r} has no parameter {argument.name!r}", argument.span, known)
        if name in given:
            raise SyntaxProblem(f"the argument {name!r} is given twice", argument.span)
        given[name] = argument
    return given


def _shown(parameter: ViewParameter) -> str:
    return f"{parameter.name.text} = ..."
