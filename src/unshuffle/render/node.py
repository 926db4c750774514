"""A plan as a tree of plain nodes, which every output format draws in its own way."""

from __future__ import annotations

from dataclasses import dataclass

from unshuffle.catalog.schema import Column


@dataclass(frozen=True, slots=True)
class Flow:
    """How an operator of a physical plan runs and what comes out of it."""

    runs: str  # serial, partitioned, pair-wise, ...; empty where there is one way
    layout: str  # where the rows are and how they are sorted, in words
    changes: bool  # are they laid out otherwise than they came in?
    rows: float
    bytes: float
    partitions: int
    seconds: float  # of the operator itself
    total: float  # and of all below it


@dataclass(frozen=True, slots=True)
class Node:
    """An operator as it is shown. `facts` are its properties by name, in the order to show them."""

    operator: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: int | None
    children: tuple[Node, ...]
    shared_as: str | None = None  # the name under which later nodes point back to this one
    refers_to: str | None = None
    flow: Flow | None = None
