"""Every physical operator is registered, and the registry rejects tables that miss an operator or name another class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from unshuffle.cost import formulas
from unshuffle.errors import InternalError
from unshuffle.explain.render import physical_operators as drawing
from unshuffle.plan import physical
from unshuffle.plan.physical import base, join
from unshuffle.verify import rederive

ABSTRACT = {
    physical.PhysicalOperator,
    base.Operator,
    base.LeafOperator,
    base.LayoutPreservingOperator,
    base.RowByRowOperator,
    join.JoinOperator,
}


def defined_operators() -> set[type]:
    """The concrete operator classes in the files of `plan/physical`."""
    modules = [
        importlib.import_module(f"{physical.__name__}.{each.name}") for each in pkgutil.iter_modules(physical.__path__)
    ]
    return {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and hasattr(kind, "keeps_order") and kind not in ABSTRACT
    }


def test_every_operator_is_registered_once() -> None:
    assert physical.HashJoin in defined_operators()
    assert set(physical.OPERATORS) == defined_operators()
    assert len(physical.OPERATORS) == len(set(physical.OPERATORS))


def test_every_operator_is_complete() -> None:
    for kind in physical.OPERATORS:
        for name in ("columns", "carried", "keeps_order", "source", "prefix", "alternatives", "deliver"):
            assert hasattr(kind, name) or name in kind.__dataclass_fields__, (kind, name)


def test_a_complete_table_is_returned_as_it_is() -> None:
    table = dict.fromkeys(physical.OPERATORS, 0)
    assert physical.per_operator("test", table) is table


def test_a_table_without_some_operator_is_an_error() -> None:
    table = dict.fromkeys(physical.OPERATORS, 0)
    del table[physical.HashJoin]
    with pytest.raises(InternalError, match="the test table has no entry for HashJoin"):
        physical.per_operator("test", table)


def test_a_table_with_a_class_that_is_no_operator_is_an_error() -> None:
    table = {**dict.fromkeys(physical.OPERATORS, 0), physical.PhysicalPlan: 0}
    with pytest.raises(InternalError, match="PhysicalPlan, which is no physical operator"):
        physical.per_operator("test", table)


def test_the_verifier_handles_every_operator() -> None:
    assert set(rederive._TO_LOGICAL) == set(physical.OPERATORS)


def test_every_operator_has_a_cost() -> None:
    assert set(formulas.FORMULAS) == set(physical.OPERATORS)


def test_every_operator_can_be_drawn() -> None:
    assert set(drawing._DESCRIBE) == set(physical.OPERATORS)
