"""Directives: `#DECLARE`, `#DEFINE`, `#INCLUDE`, `#REFERENCE`, `#IF / #ELSE / #ENDIF`, one a line, carried out before
anything is parsed.

The result is a list of sources to parse in order. Directives and branches not taken are replaced by blanks, so positions in
error messages are positions in the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from sqlglot import exp

from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import FileProblem, NameProblem, Source, Span, SyntaxProblem, TypeProblem, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.language.parse.parameters import ConstantValue, Parameters, constant
from unshuffle.language.parse.parser import parse_expression

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(.*)$", re.MULTILINE)
_DECLARE = re.compile(r"\s*@?(?P<name>[^\W\d]\w*)\s+(?P<type>[^=;]+?)\s*(?:=\s*(?P<default>[^;]*?)\s*)?;?\s*$")
_INCLUDE = re.compile(r"""\s*(["'])(?P<path>.+?)\1\s*;?\s*$""")
_DEFINE = re.compile(r"\s*(?P<name>[^\W\d]\w*)\((?P<parameters>[^()]*)\)\s*(?P<body>[^\s;].*?)\s*;?\s*$")
_KNOWN = ("DECLARE", "DEFINE", "INCLUDE", "REFERENCE", "IF", "ELSE", "ENDIF")


@dataclass(frozen=True, slots=True)
class Module:
    """A Python module by its name, and the folder that it is in."""

    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class Macro:
    """`#DEFINE name(parameters) body`."""

    name: str
    parameters: tuple[str, ...]
    body: exp.Expr


@dataclass(frozen=True, slots=True)
class Definitions:
    """What the directives of a script define beside parameters: its modules, and its macros by their names in lower case."""

    modules: list[Module] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)


@dataclass(slots=True)
class _Condition:
    """An open #IF: whether its current branch is taken, and whether the text around it is active."""

    span: Span
    taken: bool
    outer: bool
    else_seen: bool = False


def preprocess(source: Source, parameters: Parameters, definitions: Definitions | None = None) -> list[Source]:
    """The texts to parse, in order, with every directive carried out. What they define is added to `definitions`."""
    return list(_sources(source, parameters, definitions or Definitions(), (Path(source.name).resolve(),)))


def _sources(
    source: Source, parameters: Parameters, definitions: Definitions, including: tuple[Path, ...]
) -> Iterator[Source]:
    text = source.text
    piece: list[str] = []  # the text since the last #INCLUDE, blank where it is not active
    position = 0
    conditions: list[_Condition] = []

    def active() -> bool:
        return all(c.taken for c in conditions)

    for match in _directives(source):
        before = text[position : match.start()]
        piece.append(before if active() else _blank(before))
        piece.append(_blank(match.group(0)))
        position = match.end()
        word = match.group(1).upper()
        span = source.span(match.start(1) - 1, match.end(1))
        if word == "IF":
            taken = active() and _condition(source, match, parameters)
            conditions.append(_Condition(span, taken, active()))
        elif word == "ELSE":
            if not conditions or conditions[-1].else_seen:
                raise SyntaxProblem("#ELSE without an #IF", span)
            last = conditions[-1]
            last.taken, last.else_seen = last.outer and not last.taken, True
        elif word == "ENDIF":
            if not conditions:
                raise SyntaxProblem("#ENDIF without an #IF", span)
            conditions.pop()
        elif not active():
            continue
        elif word == "DECLARE":
            _declare(source, match, parameters)
        elif word == "INCLUDE":
            yield Source(source.name, "".join(piece))
            piece = [_blank("".join(piece))]
            yield from _include(source, match, parameters, definitions, including)
        elif word == "REFERENCE":
            definitions.modules.append(_reference(source, match))
        elif word == "DEFINE":
            _define(source, match, definitions)
        else:
            hint = did_you_mean(word, _KNOWN) or f"directives are {', '.join('#' + k for k in _KNOWN)}"
            raise SyntaxProblem(f"unknown directive #{match.group(1)}", span, hint)
    if conditions:
        raise SyntaxProblem("this #IF has no #ENDIF", conditions[-1].span)
    yield Source(source.name, "".join(piece) + text[position:])


def _directives(source: Source) -> Iterator[re.Match[str]]:
    """Lines that begin with #, except inside a comment or string of several lines."""
    hidden = [
        (m.start(), m.end())
        for m in re.finditer(
            r"""--[^\n]*|//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", source.text, re.DOTALL
        )
    ]
    for match in _DIRECTIVE.finditer(source.text):
        if not any(start < match.start(1) < end for start, end in hidden):
            yield match


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _condition(source: Source, match: re.Match[str], parameters: Parameters) -> bool:
    start, end = match.span(2)
    span = source.span(start + len(match.group(2)) - len(match.group(2).lstrip()), max(end, start + 1))
    value = constant(parse_expression(source, start, end), parameters, span).value
    if not isinstance(value, bool):
        raise TypeProblem("the condition of #IF is not true or false", span)
    return value


def _declare(source: Source, match: re.Match[str], parameters: Parameters) -> None:
    parts = _DECLARE.match(match.group(2))
    offset = match.start(2)
    if not parts:
        span = source.span(match.start(1) - 1, match.end())
        raise SyntaxProblem("this #DECLARE is not valid", span, "write #DECLARE name type = default;")
    span = source.span(offset + parts.start("name"), offset + parts.end("name"))
    type_span = source.span(offset + parts.start("type"), offset + parts.end("type"))
    try:
        type = from_spark_name(parts["type"].replace("?", ""))
    except ValueError as error:
        raise TypeProblem(str(error), type_span) from None
    default: ConstantValue | None = None
    if parts["default"] is not None:
        start, end = offset + parts.start("default"), offset + parts.end("default")
        default = constant(parse_expression(source, start, end), parameters, source.span(start, max(end, start + 1)))
    parameters.declare(parts["name"], type, default, span)


def _define(source: Source, match: re.Match[str], definitions: Definitions) -> None:
    parts, offset = _DEFINE.match(match.group(2)), match.start(2)
    names = [name.strip() for name in parts["parameters"].split(",")] if parts and parts["parameters"].strip() else []
    if not parts or not all(re.fullmatch(r"[^\W\d]\w*", name) for name in names):
        span = source.span(match.start(1) - 1, match.end())
        raise SyntaxProblem("this #DEFINE is not valid", span, "write #DEFINE name(a, b) expression")
    span = source.span(offset + parts.start("name"), offset + parts.end("name"))
    if parts["name"].lower() in definitions.macros:
        raise NameProblem(f"the macro {parts['name']!r} is defined twice", span)
    if len({name.lower() for name in names}) < len(names):
        raise SyntaxProblem(f"the macro {parts['name']!r} has two parameters of one name", span)
    body = parse_expression(source, offset + parts.start("body"), offset + parts.end("body"))
    definitions.macros[parts["name"].lower()] = Macro(parts["name"], tuple(names), body)


def _reference(source: Source, match: re.Match[str]) -> Module:
    path, span = _file(source, match)
    if not path.is_file():
        raise FileProblem(f"there is no file {str(path)!r}", span)
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise FileProblem(f"{path.name!r} is not a Python module", span, 'name a file, e.g. #REFERENCE "events.py"')
    return Module(path.stem, str(path.parent))


def _file(source: Source, match: re.Match[str]) -> tuple[Path, Span]:
    """The file that a directive names, relative to the file that it is in."""
    parts = _INCLUDE.match(match.group(2))
    if not parts:
        word = match.group(1).upper()
        span = source.span(match.start(1) - 1, match.end())
        raise SyntaxProblem(f"this #{word} is not valid", span, f'write #{word} "file"')
    offset = match.start(2)
    span = source.span(offset + parts.start("path"), offset + parts.end("path"))
    return (Path(source.name).parent / parts["path"]).resolve(), span


def _include(
    source: Source,
    match: re.Match[str],
    parameters: Parameters,
    definitions: Definitions,
    including: tuple[Path, ...],
) -> Iterator[Source]:
    path, span = _file(source, match)
    if path in including:
        chain = " -> ".join(p.name for p in (*including[including.index(path) :], path))
        raise SyntaxProblem(f"this file includes itself: {chain}", span, "remove one of the #INCLUDEs")
    included = read_source(path, span)
    yield from _sources(included, parameters, definitions, (*including, path))


def read_source(path: Path, span: Span | None = None) -> Source:
    try:
        return Source(str(path), path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FileProblem(f"there is no file {str(path)!r}", span) from None
    except IsADirectoryError:
        raise FileProblem(f"{str(path)!r} is a folder, not a file", span) from None
    except UnicodeDecodeError:
        raise FileProblem(f"{str(path)!r} is not a text file in UTF-8", span) from None
    except OSError as error:
        raise FileProblem(f"{str(path)!r} cannot be read: {error.strerror}", span) from None
