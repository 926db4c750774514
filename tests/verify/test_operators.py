"""Every physical operator is known to all who must know it: the verifier, the cost model and the reader of plans."""

from __future__ import annotations

import inspect

from unshuffle.algebra import operators
from unshuffle.cost import model
from unshuffle.render import physical
from unshuffle.verify import rederive

OPERATORS = {
    kind
    for name, kind in inspect.getmembers(operators, inspect.isclass)
    if kind.__module__ == operators.__name__ and not name.startswith("_") and hasattr(kind, "deliver")
}


def test_there_are_operators() -> None:
    assert operators.HashJoin in OPERATORS
    assert operators.Phase not in OPERATORS


def test_the_verifier_knows_every_operator() -> None:
    assert set(rederive._READ) == OPERATORS


def test_every_operator_has_a_cost() -> None:
    assert set(model._RULES) == OPERATORS


def test_every_operator_can_be_drawn() -> None:
    assert set(physical._DESCRIBE) == OPERATORS
