"""sqlglot's errors as ours: at a place in the source, in words that do not speak of sqlglot."""

from __future__ import annotations

import re

from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from unshuffle.errors import Source, SyntaxProblem


def tokenize_problem(source: Source, error: SqlglotError) -> SyntaxProblem:
    # sqlglot's message says where by line and column.
    found = re.search(r"line (\d+), col(?:umn)?:? (\d+)", str(error), re.IGNORECASE)
    start = len(source.text.rstrip())
    if found:
        lines = source.text.splitlines(keepends=True)
        start = sum(len(line) for line in lines[: int(found[1]) - 1]) + max(0, int(found[2]) - 1)
    start = max(0, min(start, len(source.text) - 1))
    message = "this text cannot be read: a string, a quoted name or a comment is not closed"
    return SyntaxProblem(message, source.span(start, start + 1))


def parse_problem(source: Source, error: ParseError, tokens: list[Token]) -> SyntaxProblem:
    details = error.errors[0] if error.errors else {}
    message = str(details.get("description") or "this is not valid here").rstrip(".")
    message = re.sub(r" but got <Token.*", "", message, flags=re.DOTALL)
    message = re.sub(
        r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>", r"something is missing here (\1)", message
    )
    message = re.sub(r"<class 'sqlglot\.[\w.]*\.(\w+)'>", r"\1", message)
    line, column = details.get("line"), details.get("col")
    token = tokens[-1]
    if line and column:
        # sqlglot counts the column at the end of the token.
        token = next((t for t in tokens if t.line == line and t.col == column), token)
    message = message.replace("Invalid expression / Unexpected token", f"unexpected {token.text!r} here")
    return SyntaxProblem(message, source.span(token.start, token.end + 1))
