"""The two families of errors: mistakes that the user can mend, and faults of this package.

A `UserError` says what is wrong, where (file, line, column, with the text underlined) and what to try. The command line
prints it and exits with 2. An `InternalError` names the broken invariant; the command exits with 1.

Messages quote names and values that others chose. As text they have no control characters, so a terminal only shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from unshuffle.frozen import dataclass
from unshuffle.printable import printable


@dataclass(frozen=True, slots=True)
class Source:
    """A text that a user wrote, and the name of its file."""

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
        """The first line of the span, with the span underlined."""
        begin = self.source.text.rfind("\n", 0, self.start) + 1
        end = self.source.text.find("\n", self.start)
        line = self.source.text[begin : end if end >= 0 else len(self.source.text)].removesuffix("\r")
        before, marked = (printable(part) for part in (line[: self.start - begin], line[self.start - begin :]))
        width = max(1, len(printable(line[self.start - begin : self.end - begin])))
        # Tabs are repeated below tabs, so that the marks are aligned with the text.
        indent = "".join("\t" if c == "\t" else " " for c in before)
        number = str(self.line)
        return f"  {number} | {before}{marked}\n  {' ' * len(number)} | {indent}{'^' * width}"


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
        return printable("\n".join(lines))


@contextmanager
def located(span: Span | None) -> Iterator[None]:
    """Gives errors without a position this one: where the script names the thing that is wrong."""
    try:
        yield
    except UserError as problem:
        problem.span = problem.span or span
        raise


class SyntaxProblem(UserError):
    """The text is not in the language."""


class NameProblem(UserError):
    """A column, rowset, function, parameter or class that does not exist, or that is ambiguous."""


class TypeProblem(UserError):
    """A value of a type that does not fit."""


class SqlProblem(UserError):
    """A SQL text that Spark rejects."""


class FileProblem(UserError):
    """A path that does not exist, exists already, or is of the wrong kind."""


class StreamProblem(UserError):
    """A structured stream that its manifest does not describe, or that another writer changed."""


class DeclarationProblem(UserError):
    """A declared key or dependency that the data contradicts."""


class UserCodeProblem(UserError):
    """A user-defined operator that cannot be loaded, fails, or returns other columns than it declares."""


class JobProblem(UserError):
    """The query is well formed, but running it failed: a bad value, a full disk, a lost executor."""


class NotOptimizedWarning(UserWarning):
    """A query, or all queries of a session, run as plain Spark. The message says why."""


class InternalError(UnshuffleError):
    """A broken invariant of this package, never the user's fault."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(f"{message} (a fault in unshuffle, not in your query; please report it)"))


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """A hint at similar names, compared without case, or None."""
    import difflib  # only when something is wrong: every start of the command would pay for it

    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(wrong.lower(), by_lower, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(repr(by_lower[c]) for c in close)}?" if close else None
