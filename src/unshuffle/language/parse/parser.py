"""The SCOPE statements, read with sqlglot's parser machinery: `parse(source)` gives a list of statements.

Statements end with `;`. A statement is `name = BODY`, `VIEW name AS BODY`, `OUTPUT ...` or a plain query. The expressions
and queries inside are read by `ScopeSqlParser`, the clauses of statements by `ClauseParser`.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from unshuffle.errors import Source, SyntaxProblem
from unshuffle.language.parse.clauses import ClauseParser
from unshuffle.language.parse.dialect import ScopeDialect
from unshuffle.language.parse.statements import (
    Argument,
    Assign,
    Body,
    ColumnSpec,
    CombineBody,
    Depends,
    ExtractBody,
    InputRowset,
    Name,
    OutputStatement,
    OutputStreamStatement,
    ProcessBody,
    Produces,
    QualifiedSortColumn,
    QueryStatement,
    ReduceBody,
    SelectBody,
    SortColumn,
    Statement,
    Text,
    Using,
    View,
    ViewParameter,
)
from unshuffle.language.parse.syntax_errors import parse_problem, tokenize_problem


def parse(source: Source) -> list[Statement]:
    """The statements of a source, or a SyntaxProblem at the first thing that is not in the language."""
    dialect = ScopeDialect()
    try:
        tokens = dialect.tokenize(source.text)
    except SqlglotError as error:
        raise tokenize_problem(source, error) from None
    statements: list[Statement] = []
    for statement_tokens in split_statements(tokens):
        parser = ScopeParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
        parser.source = source
        try:
            statements.append(parser.parse_statement(statement_tokens))
        except ParseError as error:
            raise parse_problem(source, error, statement_tokens) from None
        except RecursionError:
            where = source.span(statement_tokens[0].start, statement_tokens[0].end + 1)
            raise SyntaxProblem("this statement is nested too deeply", where, "split it into several rowsets") from None
    return statements


def parse_expression(source: Source, start: int, end: int) -> exp.Expr:
    """The expression that stands between two offsets of a source, with its positions in the whole source."""
    dialect = ScopeDialect()
    text = " " * start + source.text[start:end]
    try:
        tokens = dialect.tokenize(text)
        if not tokens:
            raise SyntaxProblem("an expression is missing here", source.span(start, max(end, start + 1)))
        if len(split_statements(tokens)) > 1:
            raise SyntaxProblem("one expression is expected here, without ';'", source.span(start, end))
        parser = ScopeParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
        parser.source = source
        expression: exp.Expr = parser.parse_whole(tokens, parser._parse_disjunction)
        return expression
    except ParseError as error:
        raise parse_problem(source, error, tokens) from None
    except SqlglotError as error:
        raise tokenize_problem(source, error) from None


def split_statements(tokens: list[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


class ScopeParser(ClauseParser):
    """Reads whole statements."""

    def parse_statement(self, tokens: list[Token]) -> Statement:
        statement: Statement = self.parse_whole(tokens, self._statement)
        return statement

    def _statement(self) -> Statement:
        first = self._curr
        if self._at("OUTPUT") and self._next.token_type != TokenType.EQ:
            return self._output(first)
        if self._at("VIEW") and self._next.token_type != TokenType.EQ:
            self._advance()
            name = self._name("a view's name")
            parameters = self._view_parameters() if self._at("(") else ()
            self._need("AS", "the view's name")
            return View(name, parameters, self._body(), self._span_from(first))
        if self._next.token_type == TokenType.EQ and first.token_type not in (TokenType.L_PAREN, TokenType.STRING):
            name = self._name("a rowset's name")
            self._advance()
            return Assign(name, self._body(), self._span_from(first))
        if self._at("SELECT", "WITH", "(", "VALUES", "FROM", "TABLE"):
            return QueryStatement(self._query(), self._span_from(first))
        raise SyntaxProblem(
            f"a statement cannot begin with {first.text!r}",
            self._span_of(first),
            "statements are: name = EXTRACT | SELECT | PROCESS | REDUCE | COMBINE ...; VIEW name AS ...; OUTPUT ... TO ...",
        )

    def _view_parameters(self) -> tuple[ViewParameter, ...]:
        self._need("(", "the view's name")
        parameters: list[ViewParameter] = []
        while not self._take(")"):
            if parameters:
                self._need(",", "a parameter")
            self._take("@")
            name = self._name("a parameter's name")
            if any(each.name.text.lower() == name.text.lower() for each in parameters):
                raise SyntaxProblem(f"the view has two parameters {name.text!r}", name.span)
            self._take(":")
            type = self._type(f"{name.text} string")
            parameters.append(ViewParameter(name, type, self._default() if self._take("=") else None))
        return tuple(parameters)

    def _default(self) -> Argument:
        first = self._curr
        value = self._parse_disjunction()
        if value is None:
            raise self._fail("expected a value here")
        return Argument(None, value, self._span_from(first))

    def _body(self) -> Body:
        if self._take("EXTRACT"):
            return self._extract()
        if self._take("PROCESS"):
            return ProcessBody(self._input("PROCESS"), self._produces("PROCESS"))
        if self._take("REDUCE"):
            return self._reduce()
        if self._take("COMBINE"):
            return self._combine()
        if not self._curr:
            raise self._fail("a rowset is missing after '='", "write EXTRACT, SELECT, PROCESS, REDUCE or COMBINE")
        return SelectBody(self._query())

    def _extract(self) -> ExtractBody:
        columns = self._columns("EXTRACT")
        self._need("FROM", "the columns of EXTRACT")
        path = self._text("a path")
        using = self._using() if self._take("USING") else None
        keys, depends = self._constraints()
        parts = self._parts() if self._partitioned_by() else ()
        more_keys, more_depends = self._constraints()
        return ExtractBody(columns, path, using, keys + more_keys, depends + more_depends, parts)

    def _reduce(self) -> ReduceBody:
        rowset = self._input("REDUCE")
        self._need("ON", "the rowset of REDUCE")
        on = self._names("a column")
        presort = self._orders() if self._take("PRESORT") else ()
        return ReduceBody(rowset, on, presort, self._produces("REDUCE"))

    def _combine(self) -> CombineBody:
        inputs = [self._input("COMBINE")]
        self._need("WITH", "the first rowset of COMBINE")
        inputs.append(self._input("COMBINE ... WITH"))
        while self._take("WITH") or self._take(","):
            inputs.append(self._input("COMBINE ... WITH"))
        self._need("ON", "the rowsets of COMBINE")
        first = self._curr
        condition = self._parse_disjunction()
        if condition is None:
            raise self._fail("expected a condition after ON")
        on_span = self._span_from(first)
        presort = self._qualified_orders() if self._take("PRESORT") else ()
        return CombineBody(tuple(inputs), condition, on_span, presort, self._produces("COMBINE"))

    def _qualified_orders(self) -> tuple[QualifiedSortColumn, ...]:
        """Columns of several rowsets: `a.ts, b.ts DESC`."""
        orders = []
        while True:
            first = self._curr
            names = [self._name("a column")]
            if self._take("."):
                names.append(self._name("a column"))
            span = self._span_from(first)
            descending = self._take("DESC")
            if not descending:
                self._take("ASC")
            orders.append(QualifiedSortColumn(tuple(name.text for name in names), descending, span))
            if not self._take(","):
                return tuple(orders)

    def _produces(self, statement: str) -> Produces:
        columns: tuple[ColumnSpec, ...] | None = None
        readonly: tuple[Name, ...] = ()
        required: tuple[Name, ...] | None = None
        using: Using | None = None
        while self._curr and not self._at(")"):
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
        if using is None:
            raise self._fail(f"{statement} needs USING with the class that does it", "e.g. USING mymodule.MyClass()")
        return Produces(columns, readonly, required, using)

    def _output(self, first: Token) -> OutputStatement | OutputStreamStatement:
        self._advance()
        is_last = self._at("TO") and (self._next.token_type == TokenType.STRING or self._next.text.upper() == "SSTREAM")
        rowset = None if is_last else self._input("OUTPUT")
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
        return OutputStatement(rowset, path, using, overwrite, self._span_from(first))

    def _output_stream(self, first: Token, rowset: InputRowset | None) -> OutputStreamStatement:
        path = self._text("a path")
        ranged = self._take("RANGE")
        if not ranged:
            self._take("HASH")
        clustered_by: tuple[SortColumn, ...] = ()
        sorted_by: tuple[SortColumn, ...] = ()
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
        return OutputStreamStatement(
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
