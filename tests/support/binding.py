"""Binds queries and scripts over three small described tables."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.logical import Plan, Reference, Script, walk
from workloads.described import Described, parse

# k has the key id, and v determines w. Every column but id may be NULL.
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


def expected(text: str) -> str:
    """An expected plan without the indentation of the test around it."""
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:].rstrip() for line in lines)
