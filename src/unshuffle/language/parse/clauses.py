"""The clauses that several statements share: names, typed columns, paths, rowsets, USING, KEY, DEPENDS and
PARTITIONED BY.

Methods consume tokens from the left, as all of sqlglot's do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import Source, Span, SyntaxProblem, TypeProblem
from unshuffle.language.parse.dialect import OperatorTable, ScopeSqlParser, StreamTable
from unshuffle.language.parse.statements import (
    Argument,
    Body,
    ColumnSpec,
    Depends,
    InputRowset,
    Name,
    PartSpec,
    SortColumn,
    Text,
    Using,
)

_AFTER_TYPES = ("FROM", "READONLY", "REQUIRED", "USING", "PRODUCE", "=", ";")
_OPERATORS = ("PROCESS", "REDUCE", "COMBINE", "EXTRACT")


class ClauseParser(ScopeSqlParser):
    """Parses clauses and records their positions in the source."""

    source: Source

    def parse_whole(self, tokens: list[Token], rule: Callable[[], Any]) -> Any:
        result: list[Any] = []

        def run(parser: Any) -> exp.Expr | None:
            result.append(rule())
            return None

        self._parse(run, tokens, self.source.text)
        if not result or result[0] is None:  # sqlglot looks at some words, such as ELSE, before any rule does
            raise SyntaxProblem("this is not a statement", self._span_of(tokens[0]))
        return result[0]

    def _span_of(self, token: Token) -> Span:
        return self.source.span(token.start, token.end + 1)

    def _span_from(self, first: Token) -> Span:
        last = self._prev if self._prev and self._prev.end >= first.end else first
        return self.source.span(first.start, last.end + 1)

    def _fail(self, message: str, hint: str | None = None) -> SyntaxProblem:
        token = self._curr or self._prev
        where = self._span_of(token) if self._curr else self.source.span(token.end, token.end + 1)
        return SyntaxProblem(message, where, hint)

    def _at(self, *words: str) -> bool:
        return bool(self._curr) and self._curr.text.upper() in words and self._curr.token_type != TokenType.STRING

    def _take(self, *words: str) -> bool:
        """Consumes these words if they come next, whatever tokens sqlglot made of them."""
        index = self._index
        for word in words:
            if not self._at(word):
                self._retreat(index)
                return False
            self._advance()
        return True

    def _need(self, word: str, after: str) -> None:
        if not self._take(word):
            raise self._fail(f"expected {word} after {after}")

    def _parse_cast(self, *args: Any, **kwargs: Any) -> exp.Expr:
        try:
            return super()._parse_cast(*args, **kwargs)
        except ParseError as error:
            if "Expected TYPE" not in str(error) or not self._curr:
                raise
            try:
                from_spark_name(self._curr.text)
            except ValueError as problem:
                raise TypeProblem(str(problem), self._span_of(self._curr)) from None
            raise

    # --- clauses

    def _query(self) -> exp.Expr:
        first = self._curr
        query = ScopeSqlParser._parse_statement(self)
        if isinstance(query, exp.Column | exp.Identifier):
            # `copy = rowset` is a query too.
            query = exp.select("*").from_(exp.to_table(query.name))
        if not isinstance(query, exp.Query | exp.Values):
            raise SyntaxProblem("expected a query here", self._span_of(first))
        return query

    def _constraints(self) -> tuple[tuple[tuple[Name, ...], ...], tuple[Depends, ...]]:
        keys: list[tuple[Name, ...]] = []
        depends: list[Depends] = []
        while self._at("KEY", "DEPENDS"):
            if self._take("KEY"):
                self._need("(", "KEY")
                keys.append(self._names("a column"))
                self._need(")", "the columns of KEY")
            else:
                self._advance()
                self._need("(", "DEPENDS")
                depends.append(self._depends())
                while self._take(";") or self._take(","):
                    depends.append(self._depends())
                self._need(")", "the columns of DEPENDS")
        return tuple(keys), tuple(depends)

    def _depends(self) -> Depends:
        left = self._names("a column")
        self._need("->", "the determining columns of DEPENDS")
        # `a -> b, c -> d`: the comma before c begins another dependency, because an arrow follows c.
        right = [self._name("a column")]
        while self._at(",") and not self._arrow_follows():
            self._advance()
            right.append(self._name("a column"))
        return Depends(left, tuple(right))

    def _arrow_follows(self) -> bool:
        for token in self._tokens[self._index :]:
            if token.text == "->":
                return True
            if token.text == ")":
                return False
        return False

    def _partitioned_by(self) -> bool:
        """Consumes PARTITIONED BY, which sqlglot makes one token of."""
        is_next = bool(self._curr) and self._curr.text.upper().split() == ["PARTITIONED", "BY"]
        if is_next:
            self._advance()
        return is_next

    def _parts(self) -> tuple[PartSpec, ...]:
        self._need("(", "PARTITIONED BY")
        parts = [self._part()]
        while self._take(","):
            parts.append(self._part())
        self._need(")", "the parts of PARTITIONED BY")
        return tuple(parts)

    def _part(self) -> PartSpec:
        path = self._text("the path of a part")
        self._need("WHERE", "the path of a part")
        first = self._curr
        condition = self._parse_disjunction()
        if condition is None:
            raise self._fail("expected a condition after WHERE")
        return PartSpec(path, condition, self._span_from(first))

    def _columns(self, clause: str) -> tuple[ColumnSpec, ...]:
        columns = [self._column()]
        while self._take(","):
            columns.append(self._column())
        seen: set[str] = set()
        for column in columns:
            if column.name.text.lower() in seen:
                raise SyntaxProblem(f"{clause} names the column {column.name.text!r} twice", column.name.span)
            seen.add(column.name.text.lower())
        return tuple(columns)

    def _column(self) -> ColumnSpec:
        name = self._name("a column's name")
        return ColumnSpec(name, self._type("name:string")) if self._take(":") else ColumnSpec(name)

    def _type(self, example: str) -> Text:
        first = self._curr
        depth = 0
        # A type extends to the next comma or keyword outside its brackets. The binder parses it.
        while self._curr and (depth or not (self._at(",", ")", *_AFTER_TYPES))):
            depth += self._curr.text.count("<") + self._curr.text.count("(")
            depth -= self._curr.text.count(">") + self._curr.text.count(")")
            self._advance()
        if not first or self._prev.end < first.start:
            raise self._fail("expected a type here", f"e.g. {example}")
        span = self._span_from(first)
        return Text(span.text, span)

    def _names(self, what: str) -> tuple[Name, ...]:
        result = [self._name(what)]
        while self._take(","):
            result.append(self._name(what))
        return tuple(result)

    def _name(self, what: str) -> Name:
        token = self._curr
        plain = token and re.fullmatch(r"[^\W\d]\w*", token.text) and token.token_type != TokenType.STRING
        if not token or not (plain or token.token_type == TokenType.IDENTIFIER):
            raise self._fail(f"expected {what} here")
        self._advance()
        return Name(token.text, self._span_of(token))

    def _text(self, what: str) -> Text:
        token = self._curr
        if not token or token.token_type not in (TokenType.STRING, TokenType.RAW_STRING):
            raise self._fail(f"expected {what} in quotes here")
        self._advance()
        return Text(token.text, self._span_of(token))

    def _count(self, after: str) -> int:
        token = self._curr
        if not token or token.token_type != TokenType.NUMBER or not token.text.isdigit() or int(token.text) < 1:
            raise self._fail(f"expected a number of partitions after {after}")
        self._advance()
        return int(token.text)

    def _orders(self) -> tuple[SortColumn, ...]:
        orders = []
        while True:
            column = self._name("a column")
            descending = self._take("DESC")
            if not descending:
                self._take("ASC")
            orders.append(SortColumn(column, descending))
            if not self._take(","):
                return tuple(orders)

    def _input(self, clause: str) -> InputRowset:
        first = self._curr
        if not first:
            raise self._fail(f"expected a rowset after {clause}")
        if self._at_operator():
            table: exp.Expr = self._operator_table()
        elif self._take("("):
            table = exp.Subquery(this=self._query())
            self._need(")", "the query")
        elif self._at("SSTREAM") and self._next.token_type == TokenType.STRING:
            self._advance()
            table = StreamTable(this=self._parse_string())
        else:
            name = self._name(f"a rowset after {clause}").text
            table = exp.to_table(name)
            if self._at("("):
                self._advance()
                arguments = self._parse_csv(self._parse_lambda)
                self._need(")", "the arguments of a view")
                table = exp.Table(this=exp.Anonymous(this=name, expressions=arguments))
            table.this.update_positions(first)
        if self._take("AS"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(self._name("an alias").text)))
        return InputRowset(table, self._span_from(first))

    def _body(self) -> Body:
        raise NotImplementedError

    def _at_operator(self) -> bool:
        """At `(PROCESS ...`, or another operator of SCOPE's in parentheses?"""
        following = self._tokens[self._index + 1 : self._index + 3]
        if not self._at("(") or len(following) < 2 or following[0].text.upper() not in _OPERATORS:
            return False
        return following[1].token_type not in (TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT)

    def _operator_table(self) -> OperatorTable:
        self._advance()
        first = self._curr
        table = OperatorTable(this=exp.to_identifier(first.text.lower()), body=self._body())
        table.this.update_positions(first)
        self._need(")", f"the {first.text.upper()}")
        return table

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if not self._at_operator():
            return super()._parse_table(*args, **kwargs)
        table = self._operator_table()
        table.set("alias", self._parse_table_alias())
        return table

    def _using(self) -> Using:
        first = self._curr
        parts = [self._name("a class").text]
        while self._take("."):
            parts.append(self._name("a class").text)
        arguments: list[Argument] = []
        if self._take("("):
            while not self._take(")"):
                if arguments:
                    self._need(",", "an argument")
                arguments.append(self._argument())
        return Using(".".join(parts), tuple(arguments), self._span_from(first))

    def _argument(self) -> Argument:
        first = self._curr
        if not first:
            raise self._fail("expected an argument or ')'")
        name: str | None = None
        if self._next.token_type == TokenType.EQ:
            name = self._name("an argument's name").text
            self._advance()
        value = self._parse_disjunction()
        if value is None:
            raise self._fail("expected a value here")
        return Argument(name, value, self._span_from(first))
