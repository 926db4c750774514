"""Loads the Python class that a script names, and reports what is wrong with it before any job runs.

A module is looked for in the script's folders first, then on Python's path. A module from a script's folder is not left in
`sys.modules`. So two scripts may each have a `mine.py`, an edited file is read again, and a class is sent to the workers of a
cluster by value, because the pickler finds no module to refer to.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from threading import RLock
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.user_types import TypeMark, marked
from unshuffle.errors import Span, UserCodeProblem, did_you_mean
from unshuffle.operators import Aggregator, Declaration, UserOperator, UserType
from unshuffle.plan.logical import UserClass, UserFunction

_Stamp = tuple[str, int, int]  # a file, when it was changed, its size

_lock = RLock()
_loaded: dict[tuple[str, tuple[str, ...]], tuple[ModuleType, frozenset[_Stamp]]] = {}  # the last ones
_MOST_LOADED = 64


def load(user_class: UserClass, base: type[UserOperator]) -> type[UserOperator]:
    """The class. Raises if it is not a `base`, or cannot be constructed with the script's arguments."""
    module = _module(user_class)
    named = f"{user_class.module}.{user_class.name}"
    loaded = getattr(module, user_class.name, None)
    if loaded is None:
        candidates = [
            name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, base)
        ]
        raise UserCodeProblem(
            f"no class {user_class.name!r} in {_where(module)}",
            user_class.span,
            did_you_mean(user_class.name, candidates),
        )
    if not isinstance(loaded, type) or not issubclass(loaded, base):
        kinds = [kind.__name__ for kind in getattr(loaded, "__mro__", ()) if kind.__module__ == base.__module__]
        raise UserCodeProblem(
            f"{named} is not {_a(base.__name__)}" + (f", but {_a(kinds[0])}" if kinds else ""),
            user_class.span,
            f"declare it as `class {user_class.name}(unshuffle.operators.{base.__name__})`",
        )
    if loaded.form() is None:
        raise UserCodeProblem(f"{named} defines neither {' nor '.join(base.FORMS)}", user_class.span)
    make(user_class, loaded)
    return loaded


def seconds_per_row(user_class: UserClass, loaded: type[UserOperator]) -> float:
    """The time that a class says it takes for a row; 0 if it does not say."""
    seconds = loaded.seconds_per_row
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0.0 <= seconds < inf:
        raise UserCodeProblem(
            f"seconds_per_row of {user_class.module}.{user_class.name} is {seconds!r}",
            user_class.span,
            "it is the time for one input row, in seconds, such as 0.008",
        )
    return float(seconds)


def load_function(use: UserClass) -> UserFunction | None:
    """A function or an aggregate for queries to call; None if the module has nothing of that name."""
    module = _module(use)
    found = getattr(module, use.name, None)
    if found is None:
        return None
    named = f"{use.module}.{use.name}"
    if isinstance(found, type) and issubclass(found, Aggregator):
        loaded = load(use, Aggregator)
        assert issubclass(loaded, Aggregator)
        if loaded.returns is None:
            message = f"{named} does not say the type of its result"
            raise UserCodeProblem(message, use.span, 'give the class an attribute, e.g. returns = "double"')
        return UserFunction(use, loaded, _type(named, loaded.returns, use.span), loaded.deterministic)
    if isinstance(found, type) and issubclass(found, UserOperator):
        kind = next(base.__name__ for base in found.__mro__ if base.__module__ == UserOperator.__module__)
        message = f"{named} is {_a(kind)}, which cannot be called in a query"
        raise UserCodeProblem(message, use.span, "name it after USING")
    if isinstance(found, type) or not callable(found):
        raise UserCodeProblem(f"{named} is not a function", use.span)
    declared = getattr(found, "unshuffle", None)
    if isinstance(declared, Declaration):
        returns = _type(named, declared.returns, use.span)
        return UserFunction(use, found, returns, declared.deterministic, declared.arrow)
    return UserFunction(use, found, _type(named, _annotated(named, found, use.span), use.span), False)


def load_type(use: UserClass) -> type[UserType] | None:
    """A user-defined type; None if the module has nothing of that name."""
    found = _module(use).__dict__.get(use.name)
    if found is None:
        return None
    named = f"{use.module}.{use.name}"
    if not isinstance(found, type) or not issubclass(found, UserType):
        raise UserCodeProblem(f"{named} is not a UserType", use.span, "declare it as `class X(unshuffle.UserType)`")
    if not pa.types.is_struct(_type(named, found.stored or "nothing", use.span)):
        raise UserCodeProblem(
            f"{named} is not stored as a struct", use.span, 'give it an attribute, e.g. stored = "struct<x: double>"'
        )
    return found


def column_type(use: UserClass, found: type[UserType]) -> pa.DataType:
    """The type of a column of such values."""
    stored = _type(f"{use.module}.{use.name}", found.stored, use.span)
    return marked(stored, TypeMark(use.module, use.name, use.search_path))


_ANNOTATIONS: dict[object, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime.date: "date",
    datetime.datetime: "timestamp",
    datetime.timedelta: "interval day to second",
}


def _annotated(named: str, function: Any, span: Span) -> str:
    """The Spark type for the annotation of a function's result."""
    try:
        annotation = get_type_hints(function).get("return")
    except (NameError, TypeError):
        annotation = None
    options = [each for each in get_args(annotation) if each is not type(None)] or [annotation]
    if len(options) != 1 or options[0] not in _ANNOTATIONS:
        hint = 'write @unshuffle.function(returns="string") above it, or annotate it with int, float, str, ...'
        raise UserCodeProblem(f"{named} does not say the type of its result", span, hint)
    return _ANNOTATIONS[options[0]]


def _type(named: str, text: str, span: Span) -> pa.DataType:
    try:
        return from_spark_name(text)
    except ValueError as error:
        raise UserCodeProblem(f"{named} returns an unknown type: {error}", span) from None


def holds(name: str, folders: Iterable[str]) -> bool:
    """Whether one of the folders has a module of that name."""
    return any(_holds(folder, name.partition(".")[0]) for folder in folders)


def is_installed(name: str) -> bool:
    """Whether Python finds a module of that name by itself."""
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def modules_in(folders: Iterable[str]) -> set[str]:
    """The names of what may be modules in some folders."""
    entries = [entry for folder in folders if os.path.isdir(folder) for entry in os.listdir(folder)]
    return {os.path.splitext(entry)[0] for entry in entries if entry.endswith(".py")}


def members(use: UserClass) -> Mapping[str, Any]:
    """Everything that a module defines."""
    return vars(_module(use))


def make(user_class: UserClass, loaded: type[UserOperator]) -> UserOperator:
    """An instance, constructed with the script's arguments."""
    try:
        return loaded(*user_class.arguments, **dict(user_class.keywords))
    except Exception as error:
        raise UserCodeProblem(f"{user_class} cannot be constructed: {describe(error)}", user_class.span) from error


def describe(error: BaseException, file: str | None = None) -> str:
    """An error in one line, with the innermost line of code that it passed through (in `file`, if given)."""
    text = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return f"{text} ({os.path.basename(error.filename or '?')}, line {error.lineno})" if error.lineno else text
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if file is None or frame.filename == file]
    if not lines:
        return text
    return f"{text} ({os.path.basename(lines[-1].filename)}, line {lines[-1].lineno})"


# ------------------------------------------------------------------------------------------------------------- modules


def _module(user_class: UserClass) -> ModuleType:
    folders = tuple(os.path.abspath(folder) for folder in user_class.search_path)
    key = (user_class.module, folders)
    with _lock:
        if key in _loaded and _unchanged(_loaded[key][1]):
            return _loaded[key][0]
        try:
            with _private_modules(folders) as fresh:
                module = importlib.import_module(user_class.module)
        except (Exception, SystemExit) as error:
            raise _import_problem(error, user_class, folders) from error
        _loaded.pop(key, None)
        _loaded[key] = (module, frozenset(filter(None, map(_stamp, fresh))))
        if len(_loaded) > _MOST_LOADED:
            del _loaded[next(iter(_loaded))]
        return module


@contextmanager
def _private_modules(folders: tuple[str, ...]) -> Iterator[list[ModuleType]]:
    """Imports inside it search the folders first. At its end, modules from there are listed and leave `sys.modules`."""
    before = dict(sys.modules)
    path = list(sys.path)
    bytecode = sys.dont_write_bytecode
    fresh: list[ModuleType] = []
    importlib.invalidate_caches()
    for name in before:
        if any(_holds(folder, name.partition(".")[0]) for folder in folders) and not _needed(name):
            del sys.modules[name]
    sys.path[:0] = folders
    sys.dont_write_bytecode = True  # no __pycache__ in the user's folders
    try:
        yield fresh
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = bytecode
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and found_in(name) in folders:
                fresh.append(module)
                del sys.modules[name]
        for name, module in before.items():
            sys.modules.setdefault(name, module)


def _holds(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isfile(f"{path}.py") or os.path.isdir(path)


def _needed(name: str) -> bool:
    """Modules that stay loaded: Python's, ours and our dependencies'. A script beside a folder `unshuffle` must not import a
    second copy of this package."""
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("__main__", "unshuffle", "pyarrow", "pandas", "numpy", "pyspark")


def found_in(name: str) -> str | None:
    """The folder of the top-level module of that name."""
    top = sys.modules.get(name.partition(".")[0])
    paths = list(getattr(top, "__path__", ())) or [getattr(top, "__file__", None)]
    return os.path.dirname(os.path.abspath(paths[0])) if paths[0] else None


def _stamp(module: ModuleType) -> _Stamp | None:
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    status = os.stat(file)
    return (file, status.st_mtime_ns, status.st_size)


def _unchanged(stamps: frozenset[_Stamp]) -> bool:
    def now(file: str) -> tuple[int, int] | None:
        try:
            status = os.stat(file)
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size)

    return all(now(file) == (changed, size) for file, changed, size in stamps)


def _import_problem(error: BaseException, user_class: UserClass, folders: tuple[str, ...]) -> UserCodeProblem:
    name = user_class.module
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        known = {
            os.path.splitext(entry)[0] for folder in folders if os.path.isdir(folder) for entry in os.listdir(folder)
        }
        hint = (
            did_you_mean(name, sorted(known)) or f"looked in {', '.join(folders) or 'no folder'}, then as Python does"
        )
        return UserCodeProblem(f"no module {name!r}", user_class.span, hint)
    inside = [
        frame.filename
        for frame in traceback.extract_tb(error.__traceback__)
        if any(frame.filename.startswith(folder + os.sep) for folder in folders)
    ]
    return UserCodeProblem(
        f"{name} cannot be imported: {describe(error, inside[-1] if inside else '')}", user_class.span
    )


def _where(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"
