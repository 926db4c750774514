"""Binds queries over described tables, applies rules, and shows the plan."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.show import show
from tests.support.wellformed import problems
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewrite, Rewriting
from unshuffle.normalize.traversal import ascend, descend
from unshuffle.plan.logical import Plan, Reference, Script, walk
from workloads.described import Described, parse

# k has a key, and v -> w; everything but its key may be NULL.
TABLES = """
t rows=1000
    a int
    b int
    c int
    s string
    x double
u rows=1000
    d int
    e int
    f bigint
    r string
k rows=100 key(id) depends(v -> w)
    id int
    v int
    w int
    n string
"""


@cache
def _described() -> Described:
    return Described(Path(tempfile.mkdtemp(prefix="unshuffle-tests-")), parse(TABLES))


def bind(query: str) -> Plan:
    (output,) = _described().bind(query).outputs
    return output.plan


def bind_query(query: str) -> Script:
    return _described().bind(query)


def bind_script(text: str) -> Script:
    return _described().bind(text, "test.scope", is_script=True)


def context_for(plan: Plan, disabled: Sequence[str] = ()) -> Rewriting:
    numbers = [column.id for node in walk(plan) for column in node.columns]
    uses = [column.id for node in walk(plan) if isinstance(node, Reference) for column in node.rowset.columns]
    return Rewriting(ColumnNumbers(1 + max([*numbers, *uses], default=0)), frozenset(disabled))


def down(query: str, *rules: Rewrite) -> str:
    """A query's plan after the rules were applied from the root down."""
    return _applied(query, rules, "down")


def up(query: str, *rules: Rewrite) -> str:
    return _applied(query, rules, "up")


def _applied(query: str, rules: Sequence[Rewrite], way: str) -> str:
    plan = bind(query)
    context = context_for(plan)
    changed = descend(plan, rules, context) if way == "down" else ascend(plan, rules, context)
    assert changed.columns == plan.columns
    assert not problems(changed)
    return show(changed)


def expected(text: str) -> str:
    """An expected plan, written with the indentation of the test around it."""
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:].rstrip() for line in lines)
