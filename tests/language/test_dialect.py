"""Where the dialect differs from sqlglot's Spark dialect: precedence, calls kept as written, SCOPE's operators."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from unshuffle.language.parse.dialect import AmbiguousPipes, ScopeDialect, read_pipes_as_spark


def read(text: str) -> exp.Expr:
    return sqlglot.parse_one(f"SELECT {text}", dialect=ScopeDialect).selects[0]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a | b & c", "a | (b & c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("a & b << 2", "a & (b << 2)"),
        ("a << b + 1", "a << (b + 1)"),
        ("a = b < c", "(a = b) < c"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("a + b IN (1, 2)", "(a + b) IN (1, 2)"),
        ("NOT a = b", "NOT (a = b)"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("a && b OR !c", "(a AND b) OR (NOT c)"),
        ("a == b", "a = b"),
        ("- a + b", "(- a) + b"),
    ],
)
def test_precedence_is_sparks(text: str, meant: str) -> None:
    def plain(tree: exp.Expr) -> str:
        bare = tree.transform(lambda node: node.this if isinstance(node, exp.Paren) else node)
        return repr(bare)

    assert plain(read(text)) == plain(read(meant))


def test_concatenation_binds_like_addition() -> None:
    tree = read("a || b + c")
    assert isinstance(tree, AmbiguousPipes)
    assert isinstance(tree.this, exp.Add)
    assert isinstance(tree.this.this, exp.DPipe)


def test_both_readings_of_pipes_are_kept() -> None:
    tree = read("a || b == c")
    assert isinstance(tree, AmbiguousPipes)
    assert isinstance(tree.this, exp.EQ)
    assert isinstance(tree.this.this, exp.DPipe)
    assert isinstance(tree.expression, exp.Or)


@pytest.mark.parametrize(
    ("text", "is_or"),
    [
        ("a == 1 || b == 2", True),
        ("(a == 1) || (b > 2 && c)", True),
        ("a || 'x'", False),
        ("a || b == 'ab'", False),
        ("a LIKE 'x%' || b IS NULL", True),
    ],
)
def test_pipes_by_form(text: str, is_or: bool) -> None:
    assert isinstance(read_pipes_as_spark(read(text)), exp.Or) == is_or


def test_deep_parentheses_of_pipes_are_kept_once() -> None:
    text = "a"
    for _ in range(25):
        text = f"({text} || b)"
    # Two readings of each level would be a tree of 2 ** 25 nodes.
    assert sum(1 for _ in read(text).walk()) < 500


@pytest.mark.parametrize("text", ["date_add(d, 1)", "nvl(a, b)", "ifnull(a, b)", "len(a)", "array_size(a)", "ucase(a)"])
def test_calls_are_kept_as_written(text: str) -> None:
    tree = read(text)
    assert isinstance(tree, exp.Anonymous)
    assert tree.sql(dialect=ScopeDialect).lower() == text


def test_cast_is_strict_as_in_spark_4() -> None:
    assert not isinstance(read("CAST(a AS INT)"), exp.TryCast)
    assert isinstance(read("TRY_CAST(a AS INT)"), exp.TryCast)


def test_a_rowsets_name_is_an_operand_of_a_set_operation() -> None:
    tree = sqlglot.parse_one("a UNION ALL b", dialect=ScopeDialect)
    assert isinstance(tree, exp.Union)
    assert tree.sql(dialect=ScopeDialect) == "SELECT * FROM a UNION ALL SELECT * FROM b"
