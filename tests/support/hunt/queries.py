"""Random SQL texts over the tables of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import aggregate, any_value, can_be_key, condition, is_orderable, value
from tests.support.hunt.in_parts import InParts
from tests.support.hunt.one_input import OneInput
from tests.support.hunt.rare import Rare
from tests.support.hunt.relations import Relation, Relations, Select, select
from tests.support.hunt.schemas import Column, Table

SETS = ["union all", "union", "intersect", "except", "intersect all", "except all"]
WINDOWS = ["row_number()", "rank()", "dense_rank()", "count(*)", "lag({})", "lead({}, 2)", "max({})", "min({})", "ntile(3)",
           "first_value({})", "count({})", "percent_rank()"]  # fmt: skip
FRAMES = ["", "", " rows between 1 preceding and 1 following", " rows between unbounded preceding and current row"]
FRAMED = ("count", "max", "min", "first_value")


@dataclass(frozen=True, slots=True)
class Partition:
    """A relation and a condition that parts its rows: where it is true, false, and NULL."""

    source: str
    columns: tuple[str, ...]
    condition: str

    @property
    def everything(self) -> str:
        return f"select {', '.join(self.columns)} from {self.source}"

    @property
    def in_parts(self) -> str:
        where = (f"({self.condition})", f"not ({self.condition})", f"({self.condition}) is null")
        return " union all ".join(f"({self.everything} where {each})" for each in where)

    @property
    def counted(self) -> str:
        return f"select count(*) as n from {self.source} where {self.condition}"

    @property
    def summed(self) -> str:
        return f"select coalesce(sum(if({self.condition}, 1, 0)), 0) as n from {self.source}"


class Queries:
    """Makes the queries of one case."""

    def __init__(self, tables: Sequence[Table], settings: dict[str, str]) -> None:
        self._relations = Relations(tables, settings)
        self._one_input, self._rare = OneInput(self._relations), Rare(self._relations)
        self._in_parts = InParts(self._relations)
        self._settings = settings

    def query(self, draw: Draw) -> Select:
        """A whole query: perhaps with a CTE that is used more than once, and perhaps ordered and limited."""
        prefix = ""
        if draw.at("cte").chance(0.3):
            inner, name = self._select(draw.at("cte"), 1), self._relations.new("q")
            prefix = f"with {name} as ({inner.text}) "
            usable = tuple(each for each in inner.columns if each.kind)
            if usable:
                self._relations.add(name, usable)
        made = self._select(draw.at("body"), 2)
        if draw.at("shadow").chance(0.05):
            made = self._shadowing(made)
        if draw.at("order").chance(0.3) and all(map(is_orderable, made.columns)):
            made = self._ordered(draw.at("order"), made)
        return Select(prefix + made.text, made.columns, made.is_ordered)

    def partition(self, draw: Draw) -> Partition:
        source = self._joined(draw.at("source"), 1)
        columns = draw.some([each.name for each in source.columns], 1, 4)
        return Partition(source.text, tuple(columns), condition(draw.at("condition"), source.columns))

    def _shadowing(self, of: Select) -> Select:
        """A name for two queries, one in the WITH of the other: which it means depends on the settings."""
        name, flag = self._relations.new("q"), self._relations.new("n")
        inner = f"select (with {name} as (select 2 as no) select no from {name}) as {flag}"
        text = f"with {name} as (select 1 as no) select x.*, y.{flag} from ({of.text}) as x cross join ({inner}) as y"
        return Select(text, (*of.columns, Column(flag, "int")))

    def _ordered(self, draw: Draw, of: Select) -> Select:
        """By all columns, so that only equal rows have no order."""
        by_number = self._settings.get("spark.sql.orderByOrdinal") != "false" and draw.chance(0.3)
        names = [str(i + 1) if by_number else each.name for i, each in enumerate(of.columns)]
        keys = ", ".join(f"{name}{draw.pick(['', ' desc', ' desc nulls first', ' nulls last'])}" for name in names)
        text = f"select * from ({of.text}) order by {keys}"
        if draw.at("limit").chance(0.6):
            text += f" limit {draw.pick([1, 0, 3, 5, 20])}"
        if draw.at("offset").chance(0.3):
            text += f" offset {draw.pick([1, 2, 7])}"
        return Select(text, of.columns, True)

    # --- selects

    def _select(self, draw: Draw, depth: int) -> Select:
        if draw.at("rare").chance(0.08):
            return self._rare.select(draw.at("rare")) or self._plain(draw.at("select"), depth)
        if self._relations.in_parts and draw.at("in parts").chance(0.6):
            return self._in_parts.select(draw.at("in parts"))
        if draw.at("one input").chance(0.4):
            return self._one_input.select(draw.at("one input")) or self._plain(draw.at("select"), depth)
        shapes = [self._plain, self._grouped, self._grouped, self._distinct, self._window, self._set]
        return draw.pick(shapes)(draw.at("select"), depth)

    def _plain(self, draw: Draw, depth: int) -> Select:
        source, where = self._source(draw, depth)
        new = self._relations.output
        made = [new(*any_value(draw.at("output"), source.columns)) for _ in range(draw.number(1, 4))]
        if draw.at("scalar").chance(0.2):
            made.append(new(self._relations.scalar(draw.at("scalar"), source.columns), "int"))
        return select("select", made, f"{source.text}{where}")

    def _distinct(self, draw: Draw, depth: int) -> Select:
        source, where = self._source(draw, depth)
        keys = _keys(source)
        return select("select distinct", self._relations.kept(draw.some(keys, 1, 3)), f"{source.text}{where}")

    def _grouped(self, draw: Draw, depth: int) -> Select:
        source, where = self._source(draw, depth)
        keys = draw.at("keys").some(_keys(source), 1, 3)
        if draw.at("total").chance(0.15):
            keys = []
        calls = [aggregate(draw.at("call"), source.columns) for _ in range(draw.number(0 if keys else 1, 3))]
        made = self._relations.kept(keys) + [self._relations.output(*call) for call in calls]
        grouping = self._grouping(draw.at("grouping"), [each.name for each in keys])
        having = f" having {_having(draw.at('having'), source.columns)}" if draw.at("having").chance(0.2) else ""
        return select("select", made, f"{source.text}{where}{grouping}{having}")

    def _grouping(self, draw: Draw, keys: list[str]) -> str:
        if not keys:
            return ""
        listed = ", ".join(keys)
        shape = draw.pick(["plain", "plain", "plain", "plain", "number", "cube", "rollup", "sets"])
        if shape == "number" and self._settings.get("spark.sql.groupByOrdinal") != "false":
            return f" group by {', '.join(str(i + 1) for i in range(len(keys)))}"
        if shape in ("cube", "rollup"):
            return f" group by {shape}({listed})"
        if shape == "sets":
            sets = [f"({', '.join(draw.some(keys, 0, len(keys)))})" for _ in range(draw.number(1, 3))]
            return f" group by grouping sets (({listed}), {', '.join(sets)})"
        return f" group by {listed}"

    def _window(self, draw: Draw, depth: int) -> Select:
        """Over all columns of a subquery, ordered by all of them where order matters."""
        shape = self._select if depth > 0 else self._plain
        inner = self._relations.nested(shape(draw.at("inner"), depth - 1))
        columns = [each for each in inner.columns if is_orderable(each)]
        if not columns:
            return self._plain(draw, depth)
        call = self._relations.output(*_window_call(draw.at("call"), columns))
        made = select("select", [*self._relations.kept(draw.some(columns, 1, 3)), call], inner.text)
        if call[0].kind != "int" or not draw.at("first").chance(0.3):
            return made
        outer = self._relations.nested(made)
        where = f"{outer.text} where {outer.columns[-1].name} <= {draw.number(1, 3)}"
        return select("select", self._relations.kept(outer.columns), where)

    def _set(self, draw: Draw, depth: int) -> Select:
        left, right = self._joined(draw.at("left"), depth - 1), self._joined(draw.at("right"), depth - 1)
        kinds = draw.some(["int", "text", "decimal", "real", "date", "folded", "days", "struct", "nested"], 1, 2)
        new = self._relations.output
        made = [new(value(draw.at("one"), left.columns, kind), kind) for kind in kinds]
        others = [new(value(draw.at("two"), right.columns, kind), kind) for kind in kinds]
        one, two = select("select", made, left.text), select("select", others, right.text)
        if not draw.at("third").chance(0.3):
            return Select(f"({one.text}) {draw.pick(SETS)} ({two.text})", one.columns)
        # Without parentheses, the settings say which is first.
        more = [new(value(draw.at("three"), left.columns, kind), kind) for kind in kinds]
        third = select("select", more, left.text)
        return Select(f"{one.text} {draw.pick(SETS)} {two.text} {draw.pick(SETS)} {third.text}", one.columns)

    # --- FROM and WHERE

    def _source(self, draw: Draw, depth: int) -> tuple[Relation, str]:
        """A relation and its WHERE clause."""
        source = self._joined(draw.at("from"), depth)
        conditions = []
        if draw.at("where").chance(0.4):
            conditions.append(f"({condition(draw.at('where'), source.columns)})")
        if draw.at("subquery").chance(0.25):
            conditions.append(self._relations.subquery(draw.at("subquery"), source.columns))
        return source, f" where {' and '.join(conditions)}" if conditions else ""

    def _joined(self, draw: Draw, depth: int) -> Relation:
        found = self._item(draw.at("item"), depth)
        for _ in range(draw.pick([0, 0, 1, 1, 2])):
            join = draw.at("join")
            found = self._relations.joined(join, found, self._item(join.at("item"), depth))
        return found

    def _item(self, draw: Draw, depth: int) -> Relation:
        if depth > 0 and draw.at("nested").chance(0.3):
            return self._relations.nested(self._select(draw.at("nested"), depth - 1))
        return self._relations.values() if draw.at("values").chance(0.05) else self._relations.leaf(draw.at("leaf"))


def _keys(source: Relation) -> list[Column]:
    return [each for each in source.columns if can_be_key(each)] or list(source.columns)


def _having(draw: Draw, columns: Sequence[Column]) -> str:
    call, kind = aggregate(draw, columns)
    return f"{call} > 1" if kind == "int" and "max" not in call and "min" not in call else "count(*) > 1"


def _window_call(draw: Draw, columns: list[Column]) -> tuple[str, str]:
    """A window function and the kind of its value."""
    by = draw.at("by").some([each.name for each in columns], 0, 2)
    partition = f"partition by {', '.join(by)} " if by else ""
    order = "order by " + ", ".join(f"{each.name}{draw.pick(['', ' desc'])}" for each in columns)
    shape, argument = draw.pick(WINDOWS), draw.pick(columns)
    frame = draw.pick(FRAMES) if shape.startswith(FRAMED) else ""
    if shape.startswith(("count", "max", "min")) and draw.chance(0.5):
        order = frame = ""
    kind = argument.kind if "{}" in shape and not shape.startswith("count") else "int"
    return f"{shape.replace('{}', argument.name)} over ({partition}{order}{frame})", kind
