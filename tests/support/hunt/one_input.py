"""Random SELECTs that read one relation in several ways: what super-operators, and rules about joins with aggregates, match.

The relation is used under several aliases. A column is its position, so that each use has it under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import aggregate, can_be_key, condition, has_one_form, is_orderable
from tests.support.hunt.relations import JOINS, Output, Relation, Relations, Select, select
from tests.support.hunt.schemas import Column

EQUAL = ["=", "=", "<=>"]
# Aggregates that can be merged from partial states, and some that cannot. {} is a column.
CALLS = ["count(*)", "count({})", "max({})", "min({})", "count(distinct {})"]
Positions = Sequence[int]


class OneInput:
    """Makes such SELECTs over the relations of one query."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def select(self, draw: Draw) -> Select | None:
        """None if the relation has no column that can be a key."""
        chosen = draw.at("table")
        table = self._relations.stored(chosen) if chosen.chance(0.85) else self._relations.table(chosen)
        keys = [i for i, each in enumerate(table.columns) if can_be_key(each) and is_orderable(each)]
        if not keys:
            return None
        shapes: list[Callable[[Draw, Relation, Positions], Select]] = [
            self._diamond, self._diamond, self._totals, self._join_back, self._join_back, self._extreme,
            self._two_granularities, self._union_then_group, self._exists, self._first_row, self._picked,
            self._distinct_join, self._semi_below_join, self._group_over_join, self._group_over_join, self._semi_join,
        ]  # fmt: skip
        return draw.pick(shapes)(draw.at("shape"), table, draw.at("keys").some(keys, 1, 2))

    # --- several groupings

    def _diamond(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        """Two or three groupings by the same keys, or nearly, joined or unioned."""
        count = draw.number(1, 2)
        sides = [self._groups(draw.at("side"), table, keys, count) for _ in range(draw.pick([2, 2, 3]))]
        if draw.chance(0.4):
            return Select(" union all ".join(each.text for each in sides), sides[0].columns)
        found, *others = map(self._relations.nested, sides)
        for other in others:
            pairs = zip(found.columns, other.columns[: len(keys)], strict=False)
            on = [f"{one.name} {draw.pick(EQUAL)} {two.name}" for one, two in list(pairs)[: draw.pick([len(keys), 1])]]
            found = self._join(draw.at("join"), JOINS[:6], found, other, on)
        return self._kept(found)

    def _totals(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        sides = [self._relations.nested(self._groups(draw.at("side"), table, ())) for _ in range(2)]
        return self._kept(Relation(f"{sides[0].text} cross join {sides[1].text}", sides[0].columns + sides[1].columns))

    def _two_granularities(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        more = draw.at("more").some([i for i, each in enumerate(table.columns) if can_be_key(each)], 1, 1)
        fine = self._relations.nested(self._groups(draw.at("fine"), table, list(dict.fromkeys([*keys, *more]))))
        coarse = self._relations.nested(self._groups(draw.at("coarse"), table, keys))
        return self._kept(self._join(draw.at("join"), JOINS, fine, coarse, self._equal(draw, fine, coarse, len(keys))))

    def _union_then_group(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        parts = []
        for _ in range(draw.pick([2, 2, 3])):
            part = self._relations.use(draw.at("part"), table)
            parts.append(select("select", self._relations.kept(part.columns), f"{part.text}{self._where(draw, part)}"))
        union = Select(" union all ".join(each.text for each in parts), parts[0].columns)
        return self._grouped(draw.at("group"), self._relations.nested(union), keys)

    # --- rows and what is known of their groups

    def _join_back(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        groups = self._relations.nested(self._groups(draw.at("groups"), table, keys))
        rows = self._relations.use(draw.at("rows"), table)
        on = [f"{_at(rows, key).name} {draw.pick(EQUAL)} {groups.columns[i].name}" for i, key in enumerate(keys)]
        if groups.columns[len(keys) :] and draw.chance(0.3):
            on.append(condition(draw.at("more"), [*rows.columns, *groups.columns], 0))
        sides = (rows, groups) if draw.chance(0.6) else (groups, rows)
        joined = self._join(draw.at("join"), JOINS, *sides, on)
        return self._kept(joined, self._where(draw.at("where"), joined))

    def _extreme(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        ordered = [i for i, each in enumerate(table.columns) if has_one_form(each)] or list(keys)
        by, inner, rows = (
            draw.at("by").pick(ordered),
            self._relations.use(draw.at("inner"), table),
            self._relations.use(draw.at("rows"), table),
        )
        extreme = self._relations.output(f"{draw.pick(['min', 'max'])}({_at(inner, by).name})", _at(inner, by).kind)
        kept = self._relations.kept([_at(inner, key) for key in keys])
        names = ", ".join(_at(inner, key).name for key in keys)
        found = select(
            "select", [*kept, extreme], f"{inner.text}{self._where(draw.at('where'), inner)} group by {names}"
        )
        groups = self._relations.nested(found)
        pairs = zip([*keys, by], groups.columns, strict=True)
        on = [f"{_at(rows, one).name} {draw.pick(EQUAL)} {two.name}" for one, two in pairs]
        return self._kept(self._join(draw.at("join"), JOINS, rows, groups, on))

    def _exists(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        rows, others = (self._relations.use(draw.at("use"), table) for _ in range(2))
        differ = draw.pick([i for i, each in enumerate(table.columns) if is_orderable(each)])
        parts = [f"{_at(rows, key).name} = {_at(others, key).name}" for key in keys]
        if draw.chance(0.7):
            parts.append(f"{_at(others, differ).name} {draw.pick(['<>', '<', '>', '<='])} {_at(rows, differ).name}")
        if draw.chance(0.3):
            parts.append(condition(draw.at("where"), others.columns, 0))
        word = draw.pick(["exists", "not exists"])
        where = f" where {word} (select 1 from {others.text} where {' and '.join(parts)})"
        return self._kept(rows, where)

    def _first_row(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        """By all columns, so that only equal rows tie."""
        inner, rows = self._relations.use(draw.at("inner"), table), self._relations.use(draw.at("rows"), table)
        usable = [each for each in inner.columns if is_orderable(each)]
        by, order = (
            ", ".join(_at(inner, key).name for key in keys),
            ", ".join(f"{each.name}{draw.pick(['', ' desc'])}" for each in usable),
        )
        number = self._relations.output(f"row_number() over (partition by {by} order by {order})", "int")
        first = self._relations.nested(
            select(
                "select",
                [*self._relations.kept([_at(inner, k) for k in keys]), *self._relations.kept(usable[:2]), number],
                f"{inner.text}{self._where(draw.at('where'), inner)}",
            )
        )
        chosen = self._relations.nested(
            select(
                "select",
                self._relations.kept(first.columns[:-1]),
                f"{first.text} where {first.columns[-1].name} = {draw.pick([1, 1, 1, 2])}",
            )
        )
        return self._kept(
            self._join(draw.at("join"), JOINS, rows, chosen, self._equal_to_keys(draw, rows, keys, chosen))
        )

    def _picked(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        """The value of a row with the greatest key, or the greatest struct of all columns: any such row has that value."""
        source = self._relations.use(draw, table)
        usable = [each for each in source.columns if is_orderable(each)]
        unique = [each.name for each in source.columns if each.name.lower().endswith("k")]
        of = draw.at("of").pick([each for each in usable if each.kind == "text"] or usable)
        by = draw.pick([*unique, *unique, f"struct({', '.join(each.name for each in usable)})"])
        call = self._relations.output(f"{draw.pick(['max_by', 'min_by'])}({of.name}, {by})", "")
        return self._with_keys(draw, source, keys, [call])

    # --- joins with aggregates above or below

    def _distinct_join(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        sides = []
        for _ in range(2):
            use = self._relations.use(draw.at("use"), table)
            sides.append(
                self._relations.nested(
                    select("select distinct", self._relations.kept([_at(use, key) for key in keys]), use.text)
                )
            )
        return self._kept(self._join(draw, JOINS, *sides, self._equal(draw, sides[0], sides[1], len(keys))))

    def _semi_join(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        rows, other = self._relations.use(draw.at("rows"), table), self._relations.leaf(draw.at("other"))
        return self._kept(self._relations.joined(draw.at("join"), rows, other, ["left semi join", "left anti join"]))

    def _semi_below_join(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        found = self._relations.use(draw.at("rows"), table)
        for kinds in (["left semi join", "left anti join"], ["join"], ["join", "left join"]):
            step = draw.at("step")
            found = self._relations.joined(step, found, self._relations.leaf(step.at("leaf")), kinds)
        return self._kept(found)

    def _group_over_join(self, draw: Draw, table: Relation, keys: Positions) -> Select:
        """Grouped by columns of a side, with aggregates of one side only: of a table with a key, perhaps."""
        left = self._relations.use(draw.at("left"), table)
        right = self._relations.leaf(draw.at("right"))
        if draw.chance(0.4):
            inner = self._relations.leaf(draw.at("inner"))
            usable = [i for i, each in enumerate(inner.columns) if can_be_key(each)]
            right = self._relations.nested(self._grouped(draw.at("inner"), inner, usable[:1]))
        both = self._relations.joined(draw.at("join"), left, right, ["join", "join", "left join"])
        of = draw.pick([left.columns, both.columns[len(left.columns) :] or left.columns])
        calls = [self._relations.output(*aggregate(draw.at("call"), of)) for _ in range(draw.number(1, 2))]
        usable = [i for i, each in enumerate(both.columns) if can_be_key(each)]
        return self._with_keys(draw, both, draw.at("keys").some(usable, 1, 2), calls)

    # --- parts

    def _groups(self, draw: Draw, table: Relation, keys: Positions, count: int = 1) -> Select:
        """A grouping of a use of the table, with so many aggregates."""
        return self._grouped(draw.at("grouped"), self._relations.use(draw.at("use"), table), keys, count)

    def _grouped(self, draw: Draw, source: Relation, keys: Positions, count: int = 1) -> Select:
        calls = []
        for _ in range(count):
            if draw.chance(0.5):
                of = draw.pick([each for each in source.columns if is_orderable(each)])
                shape = draw.pick(CALLS)
                call = (shape.replace("{}", of.name), of.kind if shape[:3] in ("max", "min") else "int")
            else:
                call = aggregate(draw.at("call"), source.columns)
            calls.append(self._relations.output(*call))
        return self._with_keys(draw, source, keys, calls)

    def _with_keys(self, draw: Draw, source: Relation, keys: Positions, calls: list[Output]) -> Select:
        names = [_at(source, key).name for key in keys]
        kept = self._relations.kept([_at(source, key) for key in keys])
        grouping = f" group by {', '.join(names)}" if names else ""
        having = f" having count(*) > {draw.pick([1, 2])}" if draw.at("having").chance(0.15) else ""
        return select("select", [*kept, *calls], f"{source.text}{self._where(draw, source)}{grouping}{having}")

    def _where(self, draw: Draw, source: Relation) -> str:
        step = draw.at("where")
        return f" where {condition(step, source.columns, 1)}" if step.chance(0.35) else ""

    def _join(self, draw: Draw, kinds: list[str], left: Relation, right: Relation, on: list[str]) -> Relation:
        kind = draw.pick(kinds)
        columns = left.columns if "semi" in kind or "anti" in kind else left.columns + right.columns
        return Relation(f"{left.text} {kind} {right.text} on {' and '.join(f'({each})' for each in on)}", columns)

    def _equal(self, draw: Draw, left: Relation, right: Relation, count: int) -> list[str]:
        pairs = zip(left.columns[:count], right.columns[:count], strict=True)
        return [f"{one.name} {draw.pick(EQUAL)} {two.name}" for one, two in pairs]

    def _equal_to_keys(self, draw: Draw, rows: Relation, keys: Positions, right: Relation) -> list[str]:
        pairs = zip(keys, right.columns[: len(keys)], strict=True)
        return [f"{_at(rows, key).name} {draw.pick(EQUAL)} {two.name}" for key, two in pairs]

    def _kept(self, source: Relation, where: str = "") -> Select:
        return select("select", self._relations.kept(source.columns), f"{source.text}{where}")


def _at(relation: Relation, position: int) -> Column:
    return relation.columns[position]
