"""`USING`: a built-in file format with its options, or a class of the user's with its arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unshuffle.errors import NameProblem, SyntaxProblem, did_you_mean
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.statements import formats
from unshuffle.language.parse.parameters import constant
from unshuffle.language.parse.statements import Using
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Format, UserClass


def bind_format_or_class(context: BindingContext, using: Using, role: str) -> Format | UserClass:
    """A name with a dot is a class of the user's. Any other is a built-in format."""
    if "." in using.name:
        return bind_user_class(context, using, role)
    name = formats.find(using.name)
    if name is None:
        hint = did_you_mean(using.name, formats.NAMES) or f"the built-in ones are {', '.join(formats.NAMES)}"
        message = f"there is no built-in {role} {using.name!r}"
        raise NameProblem(message, using.span, hint + "; write a class of yours as module.Class")
    return Format(name, formats.options(name, _arguments(context, using), role, using.span))


def bind_user_class(context: BindingContext, using: Using, role: str) -> UserClass:
    module, _, name = using.name.rpartition(".")
    if not module:
        raise NameProblem(f"{using.name!r} is not module.Class", using.span, f"e.g. USING my_module.{using.name}()")
    arguments = _arguments(context, using)
    positional = tuple(value for key, value in arguments if key is None)
    keywords = tuple((key, value) for key, value in arguments if key is not None)
    folder = str(Path(using.span.source.name).resolve().parent)
    search_path = tuple(dict.fromkeys((folder, str(Path.cwd()))))
    user_class = UserClass(module, name, positional, keywords, search_path, using.span)
    return replace(user_class, seconds_per_row=context.check_class(user_class, role))


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
