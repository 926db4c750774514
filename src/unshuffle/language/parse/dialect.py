"""SCOPE's SQL as a sqlglot dialect over Spark's.

sqlglot is a transpiler: it reads `date_add(d, 1)` into a node that means the same in every database. We never leave Spark,
so a call stays exactly as the user wrote it (`FUNCTIONS` is empty; only calls with a syntax of their own, such as
CAST, have parsers), and operator precedence follows Spark's grammar where sqlglot's differs: `||` binds like `+`,
`&` tighter than `^` tighter than `|`, comparisons chain from the left, and a predicate (IS, IN, LIKE, BETWEEN) applies to
the whole comparison on its left.

SCOPE adds `==`, `&&`, `!`, `? :`, `??`, `//` comments, `@parameters`, `FROM SSTREAM "path"`, and `||` as OR. The last is
ambiguous until types are known: `a || b == c` is `(a || b) = c` for strings and `a OR (b = c)` for booleans. The parser reads
both ways. Where the operands do not decide, it keeps both trees, and the binder decides.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType


class Pipes(exp.Expression):
    """`a || b || c`, where concatenation and OR have the same operands. The types of the operands decide."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class AmbiguousPipes(exp.Expression):
    """`||` beside operators of a precedence between OR and concatenation: `this` is the tree with concatenation,
    `expression` the one with OR. Their operands differ."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class TypedLiteral(exp.Cast):
    """`DATE '2024-01-31'` and the like."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Cast.arg_types, "is_literal": False}


class StreamTable(exp.Expression):
    """`SSTREAM "path"` in a FROM clause."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False}


class OperatorTable(exp.Expression):
    """`(PROCESS ...)`, REDUCE, COMBINE or EXTRACT in a FROM clause. The body is one of our statements'."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "body": True, "alias": False}


# Calls whose arguments are not a plain comma-separated list.
_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")
_COMPARISONS = {
    TokenType.EQ: exp.EQ,
    TokenType.NULLSAFE_EQ: exp.NullSafeEQ,
    TokenType.NEQ: exp.NEQ,
    TokenType.LT: exp.LT,
    TokenType.LTE: exp.LTE,
    TokenType.GT: exp.GT,
    TokenType.GTE: exp.GTE,
}


class ScopeSqlParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # Spark has no `ARRAY[1, 2]`: `array(a, b)[0]` is an element
    STRICT_CAST = True  # Spark 4's CAST raises on a bad value; only TRY_CAST gives NULL
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name in _OWN_SYNTAX
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self._parse_unary(),
    }

    # `?` and `:` are parts of `condition ? a : b`. Other databases have operators of these names.
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
        token: parser for token, parser in SparkParser.COLUMN_OPERATORS.items() if token != TokenType.PLACEHOLDER
    }

    # `DATE '2024-01-31'` is a literal. sqlglot would make it a cast.
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.TYPE_LITERAL_PARSERS,
        **dict.fromkeys(
            (
                exp.DType.DATE,
                exp.DType.TIMESTAMP,
                exp.DType.TIMESTAMPTZ,
                exp.DType.TIMESTAMPNTZ,
                exp.DType.TIMESTAMPLTZ,
            ),
            lambda self, text, type: self.expression(TypedLiteral(this=text, to=type, is_literal=True)),
        ),
    }

    def reset(self) -> None:
        super().reset()
        # Whether `||` is read as OR at the current nesting.
        self._pipes_mean_or = False
        # The tree of each disjunction, by the token where it starts, and the token after it. Both readings of an outer `||`
        # parse the same inner expressions; without this cache the time would double with every level of parentheses.
        self._disjunctions: dict[tuple[int, int], tuple[exp.Expr | None, int]] = {}

    def _parse_disjunction(self) -> exp.Expr | None:
        key = (self._chunk_index, self._index)
        if key in self._disjunctions:
            parsed, end = self._disjunctions[key]
            self._retreat(end)
            return parsed.copy() if parsed else None
        outer, self._pipes_mean_or = self._pipes_mean_or, False
        try:
            parsed = self._parse_conditional()
        finally:
            self._pipes_mean_or = outer
        self._disjunctions[key] = (parsed, self._index)
        return parsed

    def _parse_conditional(self) -> exp.Expr | None:
        """`condition ? a : b` binds loosest, and `a ?? b` next. Both group from the right, as in C#."""
        this = self._parse_coalescing()
        if this is None or not self._match(TokenType.PLACEHOLDER):
            return this
        then = self._parse_disjunction()
        if then is None or not self._match(TokenType.COLON):
            self.raise_error("':' is missing: write condition ? value : value")
        otherwise = self._parse_disjunction()
        if otherwise is None:
            self.raise_error("a value is missing after ':': write condition ? value : value")
        return self.expression(exp.Case(ifs=[exp.If(this=this, true=then)], default=otherwise))

    def _parse_coalescing(self) -> exp.Expr | None:
        this = self._parse_both_readings()
        operator = self._curr
        if this is None or not self._match(TokenType.DQMARK):
            return this
        self._pipes_mean_or = False
        instead = self._parse_coalescing()
        if instead is None:
            self.raise_error("a value is missing after '??'")
        call = self.expression(exp.Anonymous(this="coalesce", expressions=[this, instead]))
        call.update_positions(operator)
        return call

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """`CAST(x AS int?)`: every type has NULL."""
        type = super()._parse_types(*args, **kwargs)
        is_nullable = type is not None and self._curr and self._curr.token_type == TokenType.PLACEHOLDER
        if is_nullable and self._next and self._next.token_type == TokenType.R_PAREN:
            self._advance()
        return type

    def _parse_both_readings(self) -> exp.Expr | None:
        start = self._index
        as_concatenation = super()._parse_disjunction()
        end = self._index
        if not any(token.token_type == TokenType.DPIPE for token in self._tokens[start:end]):
            return as_concatenation
        self._retreat(start)
        self._pipes_mean_or = True
        as_or = super()._parse_disjunction()
        while self._match(TokenType.DPIPE):
            as_or = self.expression(exp.Or(this=as_or, expression=self._parse_conjunction()))
            while self._match_set(self.DISJUNCTION):
                as_or = self.expression(exp.Or(this=as_or, expression=self._parse_conjunction()))
        if self._index != end or as_or is None or as_concatenation is None:
            self._retreat(end)
            return as_concatenation
        operands = list(as_or.flatten(unnest=False)) if isinstance(as_or, exp.Or) else [as_or]
        if all(looks_boolean(operand) for operand in operands):
            return as_or
        if as_or == as_concatenation:  # `||` is inside parentheses
            return as_concatenation
        if isinstance(as_concatenation, exp.DPipe) and operands == list(as_concatenation.flatten(unnest=False)):
            return self.expression(Pipes(expressions=operands))
        return self.expression(AmbiguousPipes(this=as_concatenation, expression=as_or))

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """Spark: valueExpression predicate?, where comparisons are value expressions, all of one precedence."""
        this = self._parse_bitwise()
        while this and self._match_set(_COMPARISONS):
            operator = _COMPARISONS[self._prev.token_type]
            this = self.expression(operator(this=this, expression=self._parse_bitwise()))
        return self._parse_range(this, parse_is=parse_is) if this else None

    def _parse_bitwise(self) -> exp.Expr | None:
        """Spark, loosest first: |  ^  &  << >>  and then + - ||."""
        return self._left_associative(
            TokenType.PIPE,
            exp.BitwiseOr,
            lambda: self._left_associative(
                TokenType.CARET,
                exp.BitwiseXor,
                lambda: self._left_associative(TokenType.AMP, exp.BitwiseAnd, self._parse_shift),
            ),
        )

    def _left_associative(self, token: TokenType, node: type[exp.Binary], operand: Any) -> exp.Expr | None:
        this: exp.Expr | None = operand()
        while this and self._match(token):
            this = self.expression(node(this=this, expression=operand()))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while this:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif self._match_pair(TokenType.GT, TokenType.GT):
                this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            else:
                break
        return this

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        this = super()._parse_term(parse_mod)
        while this and not self._pipes_mean_or and self._match(TokenType.DPIPE):
            this = self.expression(exp.DPipe(this=this, expression=self._parse_factor(parse_mod), safe=False))
            while self._match_set(self.TERM):
                operator = self.TERM[self._prev.token_type]
                this = self.expression(operator(this=this, expression=self._parse_factor(parse_mod)))
        return this

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Records the position of the name of every call, also of those with a syntax of their own."""
        name = self._curr
        call = super()._parse_function_call(*args, **kwargs)
        inner = call
        while isinstance(inner, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        if inner is not None and name and "start" not in inner.meta:
            inner.update_positions(name)
        return call

    def _parse_parameter(self) -> exp.Parameter:
        parameter = super()._parse_parameter()
        parameter.update_positions(self._prev)
        return parameter

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """SCOPE allows `a UNION ALL b`: a rowset's name is a query where it is an operand of a set operation."""
        parsed = super()._parse_select(*args, **kwargs)
        if parsed is None and kwargs.get("parse_set_operation") is False and (table := self._parse_table_parts()):
            parsed = exp.select("*").from_(table)
        return parsed

    def parse_set_operation(self, this: exp.Expr | None, *args: Any, **kwargs: Any) -> exp.SetOperation | None:
        if isinstance(this, exp.Column) and not this.table:
            this = exp.select("*").from_(exp.Table(this=this.this))
        return super().parse_set_operation(this, *args, **kwargs)

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if self._curr and self._curr.text.upper() == "SSTREAM" and self._next.token_type == TokenType.STRING:
            self._advance()
            path = self._parse_string()
            return self.expression(StreamTable(this=path, alias=self._parse_table_alias()))
        return super()._parse_table(*args, **kwargs)


_BOOLEAN_NODES = (
    exp.Connector,
    exp.Predicate,
    exp.Not,
    exp.Boolean,
    exp.Exists,
    exp.In,
    exp.Between,
)


def looks_boolean(node: exp.Expr) -> bool:
    if isinstance(node, exp.Paren):
        return looks_boolean(node.this)
    return isinstance(node, _BOOLEAN_NODES)


def read_pipes_as_spark(tree: exp.Expr) -> exp.Expr:
    """Reads every undecided `||` as Spark does, for where types are not known."""

    def decide(node: exp.Expr) -> exp.Expr:
        if isinstance(node, Pipes):
            return _concatenation(node.expressions)
        return node.this if isinstance(node, AmbiguousPipes) else node

    decided: exp.Expr = tree.transform(decide)
    return decided


def _concatenation(operands: list[exp.Expr]) -> exp.Expr:
    result = operands[0]
    for operand in operands[1:]:
        result = exp.DPipe(this=result, expression=operand, safe=False)
    return result


class ScopeSqlGenerator(SparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        Pipes: lambda self, node: " || ".join(self.sql(part) for part in node.expressions),
        AmbiguousPipes: lambda self, node: self.sql(node, "this"),
        TypedLiteral: lambda self, node: f"{self.sql(node, 'to')} {self.sql(node, 'this')}",
        StreamTable: lambda self, node: f"SSTREAM {self.sql(node, 'this')}",
        OperatorTable: lambda self, node: f"({self.sql(node, 'this')})",
    }


class ScopeDialect(Spark):
    class Tokenizer(Spark.Tokenizer):
        # A quote in a string is escaped by a backslash or by doubling it.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        COMMENTS: ClassVar[list[Any]] = [*Spark.Tokenizer.COMMENTS, "//"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {**Spark.Tokenizer.KEYWORDS, "&&": TokenType.AND}

    Parser = ScopeSqlParser
    Generator = ScopeSqlGenerator
