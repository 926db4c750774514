"""`USING`: a built-in file format with its options, or a class of the user's with its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unshuffle.errors import NameProblem, SyntaxProblem, did_you_mean
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.statements import formats
from unshuffle.language.parse.parameters import constant
from unshuffle.language.parse.statements import Using
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Format, UserClass

_WHERE_CLASSES_ARE = (
    'write a class of yours as module.Class, or name its module: #REFERENCE "module.py"; the module that is called like the '
    "script needs neither"
)


def bind_format_or_class(context: BindingContext, using: Using, role: str) -> Format | UserClass:
    return bind_format_or_operator(context, using, role)[0]


def bind_format_or_operator(
    context: BindingContext, using: Using, role: str
) -> tuple[Format | UserClass, Mapping[str, str]]:
    """A name with a dot is a class of the user's. Any other is a built-in format, or a class in the script's modules."""
    if "." in using.name:
        return bind_operator(context, using, role)
    name = formats.find(using.name)
    if name is None:
        if context.modules.unqualified(using.name, using.span) is not None:
            return bind_operator(context, using, role)
        hint = did_you_mean(using.name, formats.NAMES) or f"the built-in ones are {', '.join(formats.NAMES)}"
        message = f"there is no built-in {role} {using.name!r}, and no class of that name"
        raise NameProblem(message, using.span, f"{hint}; {_WHERE_CLASSES_ARE}")
    return Format(name, formats.options(name, _arguments(context, using), role, using.span)), {}


def bind_user_class(context: BindingContext, using: Using, role: str) -> UserClass:
    return bind_operator(context, using, role)[0]


def bind_operator(context: BindingContext, using: Using, role: str) -> tuple[UserClass, Mapping[str, str]]:
    """The class, and the types of the columns that it says it makes."""
    user_class = _user_class(context, using)
    found = context.check_class(user_class, role)
    return replace(user_class, seconds_per_row=found.seconds_per_row), found.produces


def _user_class(context: BindingContext, using: Using) -> UserClass:
    module, _, name = using.name.rpartition(".")
    use = context.modules.use(module, name, using.span) if module else context.modules.unqualified(name, using.span)
    if use is None:
        raise NameProblem(f"there is no class {name!r} in the script's modules", using.span, _WHERE_CLASSES_ARE)
    arguments = _arguments(context, using)
    positional = tuple(value for key, value in arguments if key is None)
    keywords = tuple((key, value) for key, value in arguments if key is not None)
    return replace(use, arguments=positional, keywords=keywords)


def _arguments(context: BindingContext, using: Using) -> list[tuple[str | None, Value]]:
    names: set[str] = set()
    arguments: list[tuple[str | None, Value]] = []
    for argument in using.arguments:
        if argument.name is None and names:
            raise SyntaxProblem("an argument without a name cannot follow one with a name", argument.span)
        if argument.name is not None:
            if argument.name in names:
                raise SyntaxProblem(f"the argument {argument.name!r} is given twice", argument.span)
            names.add(argument.name)
        arguments.append((argument.name, constant(argument.value, context.parameters, argument.span).value))
    return arguments
