"""The two families of errors: what the user can mend, and what we got wrong.

A `UserError` says what is wrong, where (file, line, column, with the text underlined) and what to try. The command line
prints it and exits with 2. An `InternalError` names the invariant of ours that broke; it exits with 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A text a user wrote, and where it came from."""

    name: str
    text: str = field(repr=False)

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` up to but excluding `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def underlined(self) -> str:
        """The first line of the span as it stands in the source, with the span marked below it."""
        begin = self.source.text.rfind("\n", 0, self.start) + 1
        end = self.source.text.find("\n", self.start)
        line = self.source.text[begin : end if end >= 0 else len(self.source.text)]
        width = max(1, min(self.end - begin, len(line)) - (self.start - begin))
        # Tabs stay tabs under tabs, so that the marks stand where the text stands.
        indent = "".join("\t" if c == "\t" else " " for c in line[: self.start - begin])
        number = str(self.line)
        return f"  {number} | {line}\n  {' ' * len(number)} | {indent}{'^' * width}"


class UnshuffleError(Exception):
    """Any error this package raises on purpose."""

    exit_code = 1


class UserError(UnshuffleError):
    """Something the user can mend."""

    exit_code = 2

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.span}: {self.message}" if self.span else self.message]
        if self.span:
            lines.append(self.span.underlined())
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


@contextmanager
def located(span: Span | None) -> Iterator[None]:
    """What is wrong with a thing, at the place where the script names it."""
    try:
        yield
    except UserError as problem:
        problem.span = problem.span or span
        raise


class SyntaxProblem(UserError):
    """The text is not in the language."""


class NameProblem(UserError):
    """A column, rowset, function, parameter or class that is not there, or there twice."""


class TypeProblem(UserError):
    """Values of a type that does not fit."""


class FileProblem(UserError):
    """A path that is missing, in the way, or not what it should be."""


class StreamProblem(UserError):
    """A structured stream that is not what its manifest says, or that another writer changed."""


class DeclarationProblem(UserError):
    """A declared key or dependency that the data contradicts."""


class UserCodeProblem(UserError):
    """A user-defined operator that cannot be loaded, failed, or returned something else than it said."""


class JobProblem(UserError):
    """The query is well formed, but running it failed: a bad value, a full disk, a lost executor."""


class NotOptimizedWarning(UserWarning):
    """Queries run as plain Spark runs them, and why."""


class InternalError(UnshuffleError):
    """An invariant of ours broke. Never the user's fault; please report it."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} (a fault in unshuffle, not in your query; please report it)")


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """A near miss, compared without case, or None."""
    import difflib  # only when something is wrong: every start of the command would pay for it

    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(wrong.lower(), by_lower, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(repr(by_lower[c]) for c in close)}?" if close else None
