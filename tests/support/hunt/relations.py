"""The items of FROM in random SQL texts, how they are joined, and subqueries over them.

A relation is an item of FROM with the columns that it offers; a select is a query with the columns that it has. Columns of a
relation are qualified by its alias, and every output column has a name of its own, so self-joins need no care.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import can_be_key, condition
from tests.support.hunt.schemas import Column, Table

JOINS = ["join", "left join", "right join", "full join", "left semi join", "left anti join"]
Output = tuple[Column, str]


@dataclass(frozen=True, slots=True)
class Select:
    """A query, its columns, and whether its rows have one order."""

    text: str
    columns: tuple[Column, ...]
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """The first `following` columns follow the parts of a table, see `parts`."""

    text: str
    columns: tuple[Column, ...]
    following: int = 0


class Relations:
    """The relations of one query. A relation that is added is drawn more often than a table."""

    def __init__(self, tables: Sequence[Table], settings: dict[str, str]) -> None:
        self._known = [Relation(each.name, each.columns) for each in tables]
        self._files = [Relation(each.name, each.columns) for each in tables if each.is_files]
        self.in_parts = [Relation(each.name, each.columns, each.following) for each in tables if each.following]
        self._settings = settings
        self._numbers = count(1)

    def add(self, name: str, columns: tuple[Column, ...]) -> None:
        self._known = [Relation(name, columns)] * 2 * len(self._known) + self._known
        self._files = [Relation(name, columns)] * len(self._files) + self._files

    def table(self, draw: Draw) -> Relation:
        """A table or a relation that was added, by its own name."""
        return draw.pick(self._known)

    def stored(self, draw: Draw) -> Relation:
        """A relation that several uses of it are known to share: files or a WITH, where there are any."""
        return draw.pick(self._files or self._known)

    def leaf(self, draw: Draw) -> Relation:
        return self.use(draw, self.table(draw))

    def use(self, draw: Draw, table: Relation) -> Relation:
        """A table under a new alias."""
        alias = self.new("r")
        columns = (Column(f"{alias}.{self._spelled(draw, each.name)}", each.kind, each.type) for each in table.columns)
        return Relation(f"{table.text} as {alias}", tuple(columns), table.following)

    def values(self) -> Relation:
        alias = self.new("v")
        columns = (Column(f"{alias}.x", "int"), Column(f"{alias}.y", "text"))
        return Relation(f"(values (1, 'a'), (2, 'b'), (null, 'a')) as {alias}(x, y)", columns)

    def nested(self, select: Select) -> Relation:
        """A query as a relation. Columns of a kind that expressions do not know stay inside."""
        alias = self.new("r")
        usable = tuple(Column(f"{alias}.{each.name}", each.kind) for each in select.columns if each.kind)
        return Relation(f"({select.text}) as {alias}", usable) if usable else self.values()

    def joined(self, draw: Draw, left: Relation, right: Relation, kinds: Sequence[str] = JOINS) -> Relation:
        kind = draw.pick(kinds)
        kinds = {each.kind for each in right.columns}
        shared = [each for each in left.columns if can_be_key(each) and each.kind in kinds]
        if not shared:
            return left
        if draw.at("using").chance(0.15):
            return self._using(draw.at("using"), kind, left, right, shared)
        pairs = [_pair(draw.at("pair"), shared, right) for _ in range(draw.pick([1, 1, 2]))]
        both = (*left.columns, *right.columns)
        if draw.at("more").chance(0.2):
            pairs.append(f"({condition(draw.at('more'), both, 1)})")
        text = f"{left.text} {kind} {right.text} on {' and '.join(pairs)}"
        return Relation(text, left.columns if "semi" in kind or "anti" in kind else both)

    def _using(self, draw: Draw, kind: str, left: Relation, right: Relation, shared: list[Column]) -> Relation:
        """A join of two subqueries by a column that has one name in both."""
        key, mine = self.new("k"), draw.pick(shared)
        theirs = draw.pick([each for each in right.columns if each.kind == mine.kind])
        sides, outputs = [], []
        for side, column in ((left, mine), (right, theirs)):
            more = [self.output(each.name, each.kind) for each in side.columns[:3]]
            listed = ", ".join([f"{column.name} as {key}", *(text for _, text in more)])
            sides.append(f"(select {listed} from {side.text}) as {self.new('r')}")
            outputs.append([column for column, _ in more])
        kept = outputs[0] if "semi" in kind or "anti" in kind else outputs[0] + outputs[1]
        alias = self.new("r")
        text = f"(select * from {sides[0]} {kind} {sides[1]} using ({key})) as {alias}"
        columns = (Column(f"{alias}.{each.name}", each.kind) for each in (Column(key, mine.kind), *kept))
        return Relation(text, tuple(columns))

    # --- subqueries

    def subquery(self, draw: Draw, outer: Sequence[Column]) -> str:
        """A condition with a subquery: EXISTS, IN or a comparison with a scalar."""
        inner = self.leaf(draw.at("leaf"))
        mine, theirs = _correlation(draw.at("mine"), outer, inner)
        if mine is None:
            return f"exists (select 1 from {inner.text})"
        where = f" where {condition(draw.at('where'), inner.columns, 1)}" if draw.at("where").chance(0.4) else ""
        shape = draw.pick(["exists", "in", "not in", "not exists", "scalar"])
        if shape == "scalar":
            return f"{self.scalar(draw.at('scalar'), outer)} {draw.pick(['>', '=', '<='])} 1"
        if shape.endswith("in"):
            return f"{mine} {shape} (select {draw.pick(theirs)} from {inner.text}{where})"
        more = (
            f" and ({condition(draw.at('both'), [*outer, *inner.columns], 1)})" if draw.at("both").chance(0.2) else ""
        )
        equal = f"{draw.pick(theirs)} {draw.pick(['=', '=', '<=>', '<'])} {mine}"
        return f"{shape} (select 1 from {inner.text} where {equal}{more})"

    def scalar(self, draw: Draw, outer: Sequence[Column]) -> str:
        inner = self.leaf(draw.at("leaf"))
        mine, theirs = _correlation(draw.at("mine"), outer, inner)
        call = draw.pick(["count(*)", f"count({inner.columns[0].name})", "count(*) + 1", "nullif(count(*), 1)"])
        correlated = f" where {draw.pick(theirs)} = {mine}" if mine is not None and draw.chance(0.7) else ""
        return f"(select {call} from {inner.text}{correlated})"

    # --- names

    def output(self, text: str, kind: str) -> Output:
        name = self.new("n")
        return Column(name, kind), f"{text} as {name}"

    def kept(self, columns: Sequence[Column]) -> list[Output]:
        return [self.output(each.name, each.kind) for each in columns]

    def _spelled(self, draw: Draw, name: str) -> str:
        """A column's name in upper case, or in double quotes, where the settings allow it."""
        if self._settings.get("spark.sql.caseSensitive") != "true" and draw.chance(0.1):
            name = name.upper()
        is_ansi = self._settings.get("spark.sql.ansi.enabled") != "false"
        has_quotes = is_ansi and self._settings.get("spark.sql.ansi.doubleQuotedIdentifiers") == "true"
        return f'"{name}"' if has_quotes and draw.chance(0.3) else name

    def new(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"


def select(word: str, outputs: Sequence[Output], source: str) -> Select:
    listed = ", ".join(text for _, text in outputs)
    return Select(f"{word} {listed} from {source}", tuple(column for column, _ in outputs))


def _pair(draw: Draw, shared: list[Column], right: Relation) -> str:
    one = draw.pick(shared)
    two = draw.pick([each for each in right.columns if each.kind == one.kind])
    return f"{one.name} {draw.pick(['=', '=', '=', '<=>'])} {two.name}"


def _correlation(draw: Draw, outer: Sequence[Column], inner: Relation) -> tuple[str | None, list[str]]:
    """A column outside, and the columns inside that it can be compared with."""
    kinds = {each.kind for each in inner.columns}
    usable = [each for each in outer if can_be_key(each) and each.kind in kinds]
    if not usable:
        return None, []
    mine = draw.pick(usable)
    return mine.name, [each.name for each in inner.columns if each.kind == mine.kind]
