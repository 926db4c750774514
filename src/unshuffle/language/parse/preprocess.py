"""Directives: `#DECLARE`, `#INCLUDE`, `#IF / #ELSE / #ENDIF`, one a line, carried out before anything is parsed.

The result is a list of sources to parse in order. Directives and branches not taken are replaced by blanks, so positions in
error messages are positions in the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import FileProblem, Source, Span, SyntaxProblem, TypeProblem, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.language.parse.parameters import ConstantValue, Parameters, constant
from unshuffle.language.parse.parser import parse_expression

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(.*)$", re.MULTILINE)
_DECLARE = re.compile(r"\s*@?(?P<name>[^\W\d]\w*)\s+(?P<type>[^=;]+?)\s*(?:=\s*(?P<default>[^;]*?)\s*)?;?\s*$")
_INCLUDE = re.compile(r"""\s*(["'])(?P<path>.+?)\1\s*;?\s*$""")
_KNOWN = ("DECLARE", "INCLUDE", "IF", "ELSE", "ENDIF")


@dataclass(slots=True)
class _Condition:
    """An open #IF: whether its current branch is taken, and whether the text around it is active."""

    span: Span
    taken: bool
    outer: bool
    else_seen: bool = False


def preprocess(source: Source, parameters: Parameters) -> list[Source]:
    """The texts to parse, in order, with every directive carried out."""
    return list(_sources(source, parameters, (Path(source.name).resolve(),)))


def _sources(source: Source, parameters: Parameters, including: tuple[Path, ...]) -> Iterator[Source]:
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
            yield from _include(source, match, parameters, including)
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
        type = from_spark_name(parts["type"])
    except ValueError as error:
        raise TypeProblem(str(error), type_span) from None
    default: ConstantValue | None = None
    if parts["default"] is not None:
        start, end = offset + parts.start("default"), offset + parts.end("default")
        default = constant(parse_expression(source, start, end), parameters, source.span(start, max(end, start + 1)))
    parameters.declare(parts["name"], type, default, span)


def _include(
    source: Source, match: re.Match[str], parameters: Parameters, including: tuple[Path, ...]
) -> Iterator[Source]:
    parts = _INCLUDE.match(match.group(2))
    if not parts:
        span = source.span(match.start(1) - 1, match.end())
        raise SyntaxProblem("this #INCLUDE is not valid", span, 'write #INCLUDE "file"')
    offset = match.start(2)
    span = source.span(offset + parts.start("path"), offset + parts.end("path"))
    path = (Path(source.name).parent / parts["path"]).resolve()
    if path in including:
        chain = " -> ".join(p.name for p in (*including[including.index(path) :], path))
        raise SyntaxProblem(f"this file includes itself: {chain}", span, "remove one of the #INCLUDEs")
    included = read_source(path, span)
    yield from _sources(included, parameters, (*including, path))


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
