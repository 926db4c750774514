"""The SCOPE statements, read with sqlglot's parser machinery: `parse(source)` gives a list of statements.

Statements end with `;`. A statement is `name = BODY`, `VIEW name AS BODY`, `OUTPUT ...` or a plain query. The expressions
and queries inside are read by `ScopeSqlParser`; this file knows only what stands around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from unshuffle.catalog.types import from_spark_name
from unshuffle.errors import Source, Span, SyntaxProblem, TypeProblem
from unshuffle.language.dialect import Scope, ScopeSqlParser, StreamTable
from unshuffle.language.statements import (
    Argument,
    Assign,
    Body,
    ColumnSpec,
    Combine,
    Depends,
    Extract,
    Input,
    Name,
    Order,
    Output,
    OutputStream,
    Process,
    Produces,
    Query,
    Reduce,
    Select,
    Statement,
    Text,
    Using,
    View,
)


def parse(source: Source) -> list[Statement]:
    """The statements of a source, or a SyntaxProblem at the first thing that is not in the language."""
    dialect = Scope()
    try:
        tokens = dialect.tokenize(source.text)
    except SqlglotError as error:
        raise _tokenize_problem(source, error) from None
    statements: list[Statement] = []
    for statement_tokens in _split(tokens):
        parser = ScopeParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
        parser.source = source
        try:
            statements.append(parser.parse_statement(statement_tokens))
        except ParseError as error:
            raise _parse_problem(source, error, statement_tokens) from None
        except RecursionError:
            where = source.span(statement_tokens[0].start, statement_tokens[0].end + 1)
            raise SyntaxProblem("this statement is nested too deeply", where, "split it into several rowsets") from None
    return statements


def parse_expression(source: Source, start: int, end: int) -> exp.Expr:
    """The expression that stands between two offsets of a source, with its positions in the whole source."""
    dialect = Scope()
    text = " " * start + source.text[start:end]
    try:
        tokens = dialect.tokenize(text)
        if not tokens:
            raise SyntaxProblem("an expression is missing here", source.span(start, max(end, start + 1)))
        parser = ScopeParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
        parser.source = source
        expression: exp.Expr = parser.parse_whole(tokens, parser._parse_disjunction)
        return expression
    except ParseError as error:
        raise _parse_problem(source, error, tokens) from None
    except SqlglotError as error:
        raise _tokenize_problem(source, error) from None


def _split(tokens: list[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


def _tokenize_problem(source: Source, error: SqlglotError) -> SyntaxProblem:
    # sqlglot's message says where by line and column.
    found = re.search(r"line (\d+), col(?:umn)?:? (\d+)", str(error), re.IGNORECASE)
    start = len(source.text.rstrip())
    if found:
        lines = source.text.splitlines(keepends=True)
        start = sum(len(line) for line in lines[: int(found[1]) - 1]) + max(0, int(found[2]) - 1)
    start = max(0, min(start, len(source.text) - 1))
    message = "this text cannot be read: a string, a quoted name or a comment is not closed"
    return SyntaxProblem(message, source.span(start, start + 1))


def _parse_problem(source: Source, error: ParseError, tokens: list[Token]) -> SyntaxProblem:
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


class ScopeParser(ScopeSqlParser):
    """Adds the statements. Its methods consume tokens from the left, as all of sqlglot's do."""

    source: Source

    def parse_statement(self, tokens: list[Token]) -> Statement:
        statement: Statement = self.parse_whole(tokens, self._statement)
        return statement

    def parse_whole(self, tokens: list[Token], rule: Callable[[], Any]) -> Any:
        result: list[Any] = []

        def run(parser: Any) -> exp.Expr | None:
            result.append(rule())
            return None

        self._parse(run, tokens, self.source.text)
        if not result or result[0] is None:  # sqlglot looks at some words, such as ELSE, before any rule does
            raise SyntaxProblem("this is not a statement", self._span_of(tokens[0]))
        return result[0]

    # --- where things stand

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

    # --- statements

    def _statement(self) -> Statement:
        first = self._curr
        if self._at("OUTPUT") and self._next.token_type != TokenType.EQ:
            return self._output(first)
        if self._at("VIEW") and self._next.token_type != TokenType.EQ:
            self._advance()
            name = self._name("a view's name")
            self._need("AS", "the view's name")
            return View(name, self._body(), self._span_from(first))
        if self._next.token_type == TokenType.EQ and first.token_type not in (TokenType.L_PAREN, TokenType.STRING):
            name = self._name("a rowset's name")
            self._advance()
            return Assign(name, self._body(), self._span_from(first))
        if self._at("SELECT", "WITH", "(", "VALUES", "FROM", "TABLE"):
            return Query(self._query(), self._span_from(first))
        raise SyntaxProblem(
            f"a statement cannot begin with {first.text!r}",
            self._span_of(first),
            "statements are: name = EXTRACT | SELECT | PROCESS | REDUCE | COMBINE ...; VIEW name AS ...; OUTPUT ... TO ...",
        )

    def _body(self) -> Body:
        if self._take("EXTRACT"):
            return self._extract()
        if self._take("PROCESS"):
            return Process(self._input("PROCESS"), self._produces("PROCESS"))
        if self._take("REDUCE"):
            return self._reduce()
        if self._take("COMBINE"):
            return self._combine()
        if not self._curr:
            raise self._fail("a rowset is missing after '='", "write EXTRACT, SELECT, PROCESS, REDUCE or COMBINE")
        return Select(self._query())

    def _query(self) -> exp.Expr:
        first = self._curr
        query = ScopeSqlParser._parse_statement(self)
        if isinstance(query, exp.Column | exp.Identifier):
            # `copy = rowset` is a query too.
            query = exp.select("*").from_(exp.to_table(query.name))
        if not isinstance(query, exp.Query | exp.Values):
            raise SyntaxProblem("expected a query here", self._span_of(first))
        return query

    def _extract(self) -> Extract:
        columns = self._columns("EXTRACT")
        self._need("FROM", "the columns of EXTRACT")
        path = self._text("a path")
        self._need("USING", "the path of EXTRACT")
        using = self._using()
        keys, depends = self._constraints()
        return Extract(columns, path, using, keys, depends)

    def _reduce(self) -> Reduce:
        rowset = self._input("REDUCE")
        self._need("ON", "the rowset of REDUCE")
        on = self._names("a column")
        presort = self._orders() if self._take("PRESORT") else ()
        return Reduce(rowset, on, presort, self._produces("REDUCE"))

    def _combine(self) -> Combine:
        left = self._input("COMBINE")
        self._need("WITH", "the first rowset of COMBINE")
        right = self._input("COMBINE ... WITH")
        self._need("ON", "the second rowset of COMBINE")
        first = self._curr
        condition = self._parse_disjunction()
        if condition is None:
            raise self._fail("expected a condition after ON")
        return Combine(left, right, condition, self._span_from(first), self._produces("COMBINE"))

    def _produces(self, statement: str) -> Produces:
        columns: tuple[ColumnSpec, ...] | None = None
        readonly: tuple[Name, ...] = ()
        required: tuple[Name, ...] | None = None
        using: Using | None = None
        while self._curr:
            if self._take("PRODUCE"):
                columns = self._columns("PRODUCE")
            elif self._take("READONLY"):
                readonly = self._names("a column")
            elif self._take("REQUIRED"):
                required = self._names("a column")
            elif self._take("USING"):
                using = self._using()
            else:
                raise self._fail(f"unexpected {self._curr.text!r} in {statement}")
        if columns is None:
            raise self._fail(f"{statement} needs PRODUCE with the columns it makes", "e.g. PRODUCE word:string, n:int")
        if using is None:
            raise self._fail(f"{statement} needs USING with the class that does it", "e.g. USING mymodule.MyClass()")
        return Produces(columns, readonly, required, using)

    def _output(self, first: Token) -> Output | OutputStream:
        self._advance()
        rowset = self._input("OUTPUT")
        self._need("TO", "the rowset of OUTPUT")
        if self._take("SSTREAM"):
            return self._output_stream(first, rowset)
        path = self._text("a path")
        using: Using | None = None
        overwrite = False
        while self._curr:
            if self._take("USING"):
                using = self._using()
            elif self._take("OVERWRITE"):
                overwrite = True
            else:
                raise self._fail(f"unexpected {self._curr.text!r} in OUTPUT", "after the path: [USING ...] [OVERWRITE]")
        return Output(rowset, path, using, overwrite, self._span_from(first))

    def _output_stream(self, first: Token, rowset: Input) -> OutputStream:
        path = self._text("a path")
        ranged = self._take("RANGE")
        if not ranged:
            self._take("HASH")
        clustered_by: tuple[Order, ...] = ()
        sorted_by: tuple[Order, ...] = ()
        partitions: int | None = None
        reference: Text | None = None
        overwrite = False
        keys: tuple[tuple[Name, ...], ...] = ()
        depends: tuple[Depends, ...] = ()
        while self._curr:
            if self._take("CLUSTERED", "BY"):
                clustered_by = self._orders()
            elif self._take("SORTED", "BY"):
                sorted_by = self._orders()
            elif self._take("INTO"):
                partitions = self._count("INTO")
            elif self._take("REFERENCE"):
                reference = self._text("a stream's path")
            elif self._take("OVERWRITE"):
                overwrite = True
            elif self._at("KEY", "DEPENDS"):
                keys, depends = self._constraints()
            else:
                raise self._fail(
                    f"unexpected {self._curr.text!r} in OUTPUT TO SSTREAM",
                    "after the path: [HASH | RANGE] CLUSTERED BY cols [SORTED BY cols] [INTO n] [REFERENCE path] "
                    "[KEY (...)] [DEPENDS (...)] [OVERWRITE]",
                )
        if not clustered_by and reference is None:
            raise self._fail("a structured stream needs CLUSTERED BY or REFERENCE", "e.g. HASH CLUSTERED BY user_id")
        return OutputStream(
            rowset,
            path,
            ranged,
            clustered_by,
            sorted_by,
            partitions,
            reference,
            keys,
            depends,
            overwrite,
            self._span_from(first),
        )

    # --- parts of statements

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
        if not self._take(":"):
            return ColumnSpec(name)
        first = self._curr
        depth = 0
        # A type runs to the next comma or keyword outside its brackets; what it means is the binder's to say.
        while self._curr and (depth or not (self._at(",", "FROM", "READONLY", "REQUIRED", "USING", "PRODUCE", ";"))):
            depth += self._curr.text.count("<") + self._curr.text.count("(")
            depth -= self._curr.text.count(">") + self._curr.text.count(")")
            self._advance()
        if not first or self._prev.end < first.start:
            raise self._fail("expected a type after ':'", "e.g. name:string")
        span = self._span_from(first)
        return ColumnSpec(name, Text(span.text, span))

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

    def _orders(self) -> tuple[Order, ...]:
        orders = []
        while True:
            column = self._name("a column")
            descending = self._take("DESC")
            if not descending:
                self._take("ASC")
            orders.append(Order(column, descending))
            if not self._take(","):
                return tuple(orders)

    def _input(self, clause: str) -> Input:
        first = self._curr
        if not first:
            raise self._fail(f"expected a rowset after {clause}")
        if self._take("("):
            table: exp.Expr = exp.Subquery(this=self._query())
            self._need(")", "the query")
        elif self._at("SSTREAM") and self._next.token_type == TokenType.STRING:
            self._advance()
            table = StreamTable(this=self._parse_string())
        else:
            table = exp.to_table(self._name(f"a rowset after {clause}").text)
            table.this.update_positions(first)
        if self._take("AS"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(self._name("an alias").text)))
        return Input(table, self._span_from(first))

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
