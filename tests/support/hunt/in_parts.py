"""Random SELECTs over tables in parts, by columns that follow the parts: joins of all kinds, groupings, windows, unions, and
the first rows of an order. Plans can read such tables in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import aggregate, can_be_key, condition, has_one_form, is_orderable
from tests.support.hunt.relations import JOINS, Relation, Relations, Select, select
from tests.support.hunt.schemas import Column

SETS = ["union all", "union", "intersect", "except", "intersect all", "except all"]
RANGES = {
    "int": ["{} between 3 and 14", "{} > 5", "{} < 9", "{} in (1, 4, 7)", "{} = 6", "{} >= 2 and {} <> 5"],
    "date": ["{} >= '2024-02-28'", "{} between '2024-02-27' and '2024-03-01'", "{} = date'2024-02-29'"],
    "text": ["{} > '010'", "{} like '01%'", "{} in ('006', '009', '012')", "{} <= '008'"],
    "decimal": ["{} > 1.5", "{} between 0 and 3.25", "{} in (0.25, 1.5, 2)"],
}
NULL_TESTS = ["{} is null", "{} is not null", "coalesce({}, null) is not null"]
Keyed = tuple[Relation, list[Column]]  # a relation and its columns that follow parts


class InParts:
    """Makes such SELECTs over the relations of one query."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def select(self, draw: Draw) -> Select:
        shapes: list[Callable[[Draw], Select]] = [
            self._plain, self._plain, self._grouped, self._grouped, self._grouped, self._window, self._first_rows,
            self._distinct, self._set, self._subquery, self._join_of_joins,
        ]  # fmt: skip
        return draw.pick(shapes)(draw.at("in parts"))

    # --- selects

    def _plain(self, draw: Draw) -> Select:
        source, keys = self._joined(draw.at("from"))
        shown = [*keys, *draw.at("shown").some(source.columns, 1, 4)]
        return self._kept(shown, source, self._where(draw.at("where"), keys, source))

    def _grouped(self, draw: Draw) -> Select:
        source, keys = self._joined(draw.at("from"))
        return self._groups(draw.at("groups"), source, keys)

    def _distinct(self, draw: Draw) -> Select:
        source, keys = self._joined(draw.at("from"))
        where = self._where(draw.at("where"), keys, source)
        return select(
            "select distinct", self._relations.kept(self._by(draw.at("by"), source, keys)), source.text + where
        )

    def _window(self, draw: Draw) -> Select:
        """Of a part's rows, ordered by all columns, or not at all."""
        source, keys = self._joined(draw.at("from"))
        inner = self._relations.nested(self._kept(source.columns, source, self._where(draw.at("where"), keys, source)))
        place = {column.name: i for i, column in enumerate(source.columns)}
        by = ", ".join(inner.columns[place[each.name]].name for each in self._by(draw.at("by"), source, keys))
        usable = [each for each in inner.columns if is_orderable(each)]
        order = ", ".join(f"{each.name}{draw.pick(['', ' desc'])}" for each in usable)
        of = draw.at("of").pick(usable)
        ordered = draw.pick(["row_number()", "rank()", "dense_rank()", f"lag({of.name})", "ntile(3)"])
        whole = draw.pick(["count(*)", f"max({of.name})", f"count({of.name})"])
        call = f"{ordered} over (partition by {by} order by {order})"
        if draw.chance(0.5):
            call = f"{whole} over (partition by {by})"
        made = self._relations.output(call, of.kind if "lag" in call or "max" in call else "int")
        shown = draw.at("shown").some(usable, 1, 4)
        return select("select", [*self._relations.kept(shown), made], inner.text)

    def _first_rows(self, draw: Draw) -> Select:
        source, keys = self._joined(draw.at("from"))
        shown = [*keys, *draw.at("shown").some([each for each in source.columns if is_orderable(each)], 0, 2)]
        inner = self._kept(shown, source, self._where(draw.at("where"), keys, source))
        order = ", ".join(
            f"{each.name}{draw.pick(['', ' desc', ' nulls last', ' desc nulls first'])}" for each in inner.columns
        )
        limit = draw.pick([" limit 5", "", " limit 1", " limit 20", " limit 3 offset 4"])
        return Select(f"select * from ({inner.text}) order by {order}{limit}", inner.columns, True)

    def _set(self, draw: Draw) -> Select:
        """Of columns of one kind, of two tables."""
        (one, mine), (two, theirs) = self._side(draw.at("one")), self._side(draw.at("two"))
        pairs = self._pairs(draw.at("pairs"), mine, theirs)
        if not pairs:
            return self._plain(draw)
        word = draw.pick(SETS)
        left = self._kept([a for a, _ in pairs], one, self._where(draw.at("where"), mine, one))
        right = self._kept([b for _, b in pairs], two, self._where(draw.at("where"), theirs, two))
        both = Select(f"({left.text}) {word} ({right.text})", left.columns)
        if draw.chance(0.5):
            return both
        union = self._relations.nested(both)
        return self._groups(draw.at("groups"), union, list(union.columns))

    def _subquery(self, draw: Draw) -> Select:
        (source, keys), (inner, theirs) = self._joined(draw.at("from")), self._side(draw.at("inner"))
        pairs = self._pairs(draw.at("pairs"), keys, theirs)
        if not pairs:
            return self._plain(draw)
        where = self._where(draw.at("where"), theirs, inner)
        mine, other = pairs[0]
        equal = " and ".join(f"{a.name} = {b.name}" for a, b in pairs)
        link = " and " if where else " where "
        test = draw.pick([
            f"{mine.name} in (select {other.name} from {inner.text}{where})",
            f"{mine.name} not in (select {other.name} from {inner.text}{where})",
            f"exists (select 1 from {inner.text}{where}{link}{equal})",
            f"not exists (select 1 from {inner.text}{where}{link}{equal})",
            f"{mine.name} = (select max({other.name}) from {inner.text}{where})",
            f"{mine.name} >= (select min({other.name}) from {inner.text}{where}{link}{equal})",
        ])  # fmt: skip
        return self._kept([*keys, *draw.at("shown").some(source.columns, 1, 2)], source, f" where {test}")

    def _join_of_joins(self, draw: Draw) -> Select:
        """Two groupings of joins, joined by their keys."""
        sides = [self._relations.nested(self._grouped(draw.at("side"))) for _ in range(2)]
        pairs = self._pairs(draw.at("pairs"), list(sides[0].columns[:1]), list(sides[1].columns[:1]))
        if not pairs:
            return self._kept(sides[0].columns, sides[0])
        kind = draw.pick(JOINS)
        equal = " and ".join(f"{a.name} {draw.pick(['=', '=', '<=>'])} {b.name}" for a, b in pairs)
        columns = sides[0].columns if "semi" in kind or "anti" in kind else sides[0].columns + sides[1].columns
        return self._kept(columns, Relation(f"{sides[0].text} {kind} {sides[1].text} on {equal}", columns))

    # --- relations

    def _joined(self, draw: Draw) -> Keyed:
        """One table, or two or three, or a table with itself."""
        source, keys = self._side(draw.at("side"))
        for _ in range(draw.pick([1, 1, 1, 2, 0])):
            step = draw.at("join")
            other, theirs = self._side(step.at("side"))
            pairs = self._pairs(step.at("pairs"), keys, theirs)
            if not pairs:
                continue
            kind = step.pick(JOINS)
            on = [f"{a.name} {step.pick(['=', '=', '=', '<=>'])} {b.name}" for a, b in pairs]
            both = (*source.columns, *other.columns)
            if step.at("range").chance(0.15):
                one, two = step.pick(keys), step.pick(theirs)
                on += [f"{one.name} {step.pick(['<', '<=', '>'])} {two.name}"] * (one.kind == two.kind)
            if step.at("more").chance(0.2):
                on.append(f"({condition(step.at('more'), both, 1)})")
            is_half = "semi" in kind or "anti" in kind
            columns = source.columns if is_half else both
            source = Relation(f"{source.text} {kind} {other.text} on {' and '.join(on)}", columns)
            keys = keys if is_half else [*keys, *theirs]
        return source, keys

    def _side(self, draw: Draw) -> Keyed:
        """A table, some of its rows, its groups, or the rows of two tables."""
        table = self._relations.use(draw.at("use"), draw.pick(self._relations.in_parts))
        keys = list(table.columns[: table.following])
        shape = draw.pick(["table", "table", "table", "table", "rows", "groups", "union"])
        if shape == "table":
            return table, keys
        if shape == "rows":
            return self._keyed(self._kept(table.columns, table, self._where(draw.at("where"), keys, table)), len(keys))
        if shape == "groups":
            by = draw.at("by").some(keys, 1, 2)
            calls = [
                self._relations.output(*aggregate(draw.at("call"), table.columns)) for _ in range(draw.number(1, 2))
            ]
            names = ", ".join(each.name for each in by)
            made = select("select", [*self._relations.kept(by), *calls], f"{table.text} group by {names}")
            return self._keyed(made, len(by))
        other = self._relations.use(draw.at("other"), draw.pick(self._relations.in_parts))
        pairs = self._pairs(draw.at("pairs"), keys, list(other.columns[: other.following]))
        one, two = (self._kept([pair[i] for pair in pairs], side) for i, side in enumerate((table, other)))
        return (
            self._keyed(Select(f"{one.text} union all {two.text}", one.columns), len(pairs)) if pairs else (table, keys)
        )

    def _keyed(self, made: Select, keys: int) -> Keyed:
        nested = self._relations.nested(made)
        return nested, list(nested.columns[:keys])

    # --- parts of a query

    def _groups(self, draw: Draw, source: Relation, keys: Sequence[Column]) -> Select:
        by = self._by(draw.at("by"), source, keys)
        calls = [self._relations.output(*aggregate(draw.at("call"), source.columns)) for _ in range(draw.number(1, 3))]
        where = self._where(draw.at("where"), keys, source)
        names = ", ".join(each.name for each in by)
        having = f" having count(*) > {draw.pick([1, 2])}" if draw.at("having").chance(0.1) else ""
        made = [*self._relations.kept(by), *calls]
        return select("select", made, f"{source.text}{where} group by {names}{having}")

    def _by(self, draw: Draw, source: Relation, keys: Sequence[Column]) -> list[Column]:
        """One or two columns that follow parts, perhaps with another one."""
        names = {each.name for each in keys}
        others = [each for each in source.columns if can_be_key(each) and each.name not in names]
        more = draw.at("more").some(others, 1, 1) if draw.at("more").chance(0.3) else []
        return [*draw.at("keys").some(list(keys), 1, 2), *more]

    def _pairs(self, draw: Draw, mine: Sequence[Column], theirs: Sequence[Column]) -> list[tuple[Column, Column]]:
        pairs = [(a, b) for a in mine for b in theirs if a.kind == b.kind]
        found = draw.some(pairs, 1, 2)
        return found if len({b.name for _, b in found}) == len(found) == len({a.name for a, _ in found}) else found[:1]

    def _where(self, draw: Draw, keys: Sequence[Column], source: Relation) -> str:
        if not draw.chance(0.45):
            return ""
        usable = [each for each in keys if has_one_form(each)]
        if not usable or draw.chance(0.2):
            return f" where {condition(draw.at('any'), source.columns, 1)}"
        key = draw.pick(usable)
        tests = RANGES.get(key.kind, []) + NULL_TESTS[: 1 + (key.kind != "int")]
        first = draw.pick(tests).replace("{}", key.name)
        if draw.chance(0.2):
            other = condition(draw.at("other"), source.columns, 1)
            return f" where ({first}) {draw.pick(['and', 'or'])} ({other})"
        return f" where {first}"

    def _kept(self, columns: Sequence[Column], source: Relation, where: str = "") -> Select:
        return select("select", self._relations.kept(columns), f"{source.text}{where}")
