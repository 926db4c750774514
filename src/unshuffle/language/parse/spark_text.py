"""The queries of a text as Spark's own parser takes them.

A query may use two things that Spark's SQL does not have: `@name`, a parameter, which becomes a parameter marker `:name`; and
`SSTREAM "path"` in a FROM clause, which becomes the name of a view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import pairwise

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from unshuffle.errors import Source
from unshuffle.frozen import dataclass
from unshuffle.language.parse.dialect import ScopeDialect
from unshuffle.language.parse.parser import split_statements

_SCRIPT_STATEMENTS = ("OUTPUT", "VIEW")
_QUERIES = ("SELECT", "WITH", "(", "VALUES", "FROM", "TABLE")


@dataclass(frozen=True, slots=True)
class SparkText:
    """One query or command for Spark's parser."""

    text: str
    words: frozenset[str] = frozenset()  # in lower case: whatever may be the name of a table
    parameters: frozenset[str] = frozenset()  # the markers `:name`
    streams: Mapping[str, str] = field(default_factory=dict)  # paths by the names that stand for them
    is_query: bool = True  # a command would do something as soon as Spark reads it


def spark_texts(source: Source) -> list[SparkText] | None:
    """The queries of a text. None if it has statements that only scripts have."""
    try:
        tokens = ScopeDialect().tokenize(source.text)
    except SqlglotError:
        return [SparkText(source.text, is_query=False)]
    statements = split_statements(tokens)
    if any(map(_is_script_statement, statements)):
        return None
    return [_spark_text(source, statement) for statement in statements]


def _is_script_statement(tokens: list[Token]) -> bool:
    first, second = tokens[0], tokens[1] if len(tokens) > 1 else None
    if second is not None and second.token_type == TokenType.EQ:
        return first.token_type not in (TokenType.L_PAREN, TokenType.STRING) and first.text.upper() != "SET"
    return first.text.upper() in _SCRIPT_STATEMENTS


def _spark_text(source: Source, tokens: list[Token]) -> SparkText:
    start, end = tokens[0].start, tokens[-1].end + 1
    parts: list[str] = []
    parameters: list[str] = []
    streams: dict[str, str] = {}
    done = start
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.PARAMETER and token.end + 1 == following.start:
            parts += [source.text[done : token.start], ":"]
            parameters.append(following.text)
            done = token.end + 1
        elif token.text.upper() == "SSTREAM" and following.token_type == TokenType.STRING:
            name = f"_s{len(streams)}"
            streams[name] = following.text
            parts += [source.text[done : token.start], name]
            done = following.end + 1
    parts.append(source.text[done:end])
    words = frozenset(token.text.lower() for token in tokens)
    # A WITH or FROM clause may precede an INSERT.
    is_query = tokens[0].text.upper() in _QUERIES and all(token.token_type != TokenType.INSERT for token in tokens)
    return SparkText("".join(parts), words, frozenset(parameters), streams, is_query)
