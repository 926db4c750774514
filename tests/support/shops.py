"""A few described tables, one of which may be stored in partitions, and plans over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from unshuffle.catalog.schema import Dependency
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan.logical import Scan, Script
from unshuffle.properties import Delivered, asc, hashed
from unshuffle.properties.layouts.structure import Sorted
from unshuffle.target import Target
from workloads.described import Described, parse, with_scans

TABLES = """
visits  rows=400000000 depends(shop -> city)
    visitor  bigint  distinct=20000000
    shop     bigint  distinct=50000
    city     int     distinct=900
    spent    decimal(15,2)
shops  rows=50000 key(shop_id)
    shop_id  bigint
    region   string  distinct=12 width=9
visitors  rows=20000000 key(id)
    id    bigint
    name  string  width=30
"""
EIGHT = Options(Target(Machine(cores=8)))


class Shops:
    def __init__(self, folder: Path) -> None:
        self._described = Described(folder, parse(TABLES))

    def script(
        self,
        query: str,
        stored: Iterable[str] = (),
        sorted_by: Iterable[str] = (),
        depends: tuple[str, str] | None = None,
        into: int = 64,
    ) -> Script:
        """`stored` are the columns that visits is hash-partitioned on, and `sorted_by` those it is sorted by."""

        def change(scan: Scan) -> Scan:
            named = {column.name: column for column in scan.columns}
            if scan.label != "visits":
                return scan
            if depends is not None and all(name in named for name in depends):
                one, other = (frozenset((named[name],)) for name in depends)
                scan = replace(scan, dependencies=(*scan.dependencies, Dependency(one, other)))
            order: tuple[Sorted, ...] = tuple(asc(named[name]) for name in sorted_by)
            on = [named[name] for name in stored]
            return replace(scan, layout=Delivered(hashed(on, into), order)) if on else scan

        return with_scans(self._described.bind(query), change)

    def plan(self, query: str, **layout: object) -> PlannedQuery:
        return optimize(self.script(query, **layout), EIGHT)  # type: ignore[arg-type]
