"""Random SELECTs in clauses that few queries have: PIVOT, UNPIVOT, LATERAL, generators, recursion, samples, pipes."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import condition, value
from tests.support.hunt.relations import Relation, Relations, Select, select
from tests.support.hunt.schemas import Column


class Rare:
    """Makes such SELECTs over the relations of one query."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def select(self, draw: Draw) -> Select | None:
        """None if the relation has no column that the clause needs."""
        shapes: list[Callable[[Draw, Relation], Select | None]] = [
            self._pivot, self._unpivot, self._exploded, self._lateral, self._recursive, self._piped, self._generated,
            self._named_window, self._alias_in_select, self._values, self._hinted,
        ]  # fmt: skip
        return draw.pick(shapes)(draw.at("rare"), self._relations.leaf(draw.at("source")))

    def _pivot(self, draw: Draw, source: Relation) -> Select | None:
        usable = [each for each in source.columns if each.kind in ("text", "int")]
        if not usable:
            return None
        by, key = draw.at("by").pick(usable), draw.at("key").pick(usable)
        inner = select("select", self._relations.kept([key, by, draw.pick(usable)]), source.text)
        listed = ("'a'", "'b'") if by.kind == "text" else ("1", "2")
        kept, of, counted = (each.name for each in inner.columns)
        one, two = self._relations.new("p"), self._relations.new("p")
        pivot = f"count({counted}) for {of} in ({listed[0]} as {one}, {listed[1]} as {two})"
        columns = (Column(kept, key.kind), Column(one, "int"), Column(two, "int"))
        return Select(f"select * from ({inner.text}) pivot ({pivot})", columns)

    def _unpivot(self, draw: Draw, source: Relation) -> Select | None:
        numbers = [each for each in source.columns if each.kind == "int"][:3]
        if len(numbers) < 2:
            return None
        new = self._relations.output
        made = [new(source.columns[0].name, source.columns[0].kind)]
        made += [new(f"cast({each.name} as bigint)", "int") for each in numbers]
        inner, name, number = select("select", made, source.text), self._relations.new("u"), self._relations.new("u")
        listed, nulls = ", ".join(each.name for each in inner.columns[1:]), draw.pick(["", "include nulls "])
        columns = (inner.columns[0], Column(name, "text"), Column(number, "int"))
        return Select(f"select * from ({inner.text}) unpivot {nulls}({number} for {name} in ({listed}))", columns)

    def _exploded(self, draw: Draw, source: Relation) -> Select:
        name, item = self._relations.new("l"), self._relations.new("i")
        array = value(draw.at("array"), source.columns, "array")
        made = self._relations.kept(draw.some(source.columns, 1, 2))
        outer = draw.pick(["", "outer "])
        if draw.chance(0.5):
            position = self._relations.new("i")
            view = f"lateral view {outer}posexplode({array}) {name} as {position}, {item}"
            made.append(self._relations.output(f"{name}.{position}", "int"))
        else:
            view = f"lateral view {outer}explode({array}) {name} as {item}"
        return select("select", [*made, self._relations.output(f"{name}.{item}", "int")], f"{source.text} {view}")

    def _generated(self, draw: Draw, source: Relation) -> Select:
        made = self._relations.kept(draw.some(source.columns, 1, 2))
        number, text = (value(draw.at(kind), source.columns, kind) for kind in ("int", "text"))
        name = self._relations.new("g")
        call = draw.pick([f"explode(array({number}, 1))", f"explode_outer(split({text}, 'a'))", "stack(2, 1, 2)"])
        kind = "text" if "split" in call else "int"
        return select("select", [*made, (Column(name, kind), f"{call} as {name}")], source.text)

    def _lateral(self, draw: Draw, source: Relation) -> Select:
        inner, alias, name = self._relations.leaf(draw.at("inner")), self._relations.new("l"), self._relations.new("c")
        both = [*source.columns, *inner.columns]
        number = value(draw.at("number"), source.columns, "int")
        bodies = [
            f"select {number} as {name}",
            f"select count(*) as {name} from {inner.text} where {condition(draw.at('where'), both, 1)}",
            f"select {value(draw.at('of'), inner.columns, 'int')} as {name} from {inner.text} where {condition(draw.at('where'), both, 0)}",
        ]
        joined = draw.pick([", lateral", " left join lateral"])
        on = " on true" if "left" in joined else ""
        made = [
            *self._relations.kept(draw.some(source.columns, 1, 3)),
            self._relations.output(f"{alias}.{name}", "int"),
        ]
        return select("select", made, f"{source.text}{joined} ({draw.pick(bodies)}) as {alias}{on}")

    def _recursive(self, draw: Draw, source: Relation) -> Select:
        name, number, alias = (self._relations.new(letter) for letter in "qnr")
        start = f"select distinct {value(draw.at('start'), source.columns, 'int', 0)} as {number} from {source.text}"
        loop = f"select {number} + 1 from {name} where {number} < {draw.pick([3, 0, 6])}"
        text = f"with recursive {name}({number}) as (({start}) union all {loop}) select {alias}.{number} as {number}_2 from {name} as {alias}"
        return Select(text, (Column(f"{number}_2", "int"),))

    def _piped(self, draw: Draw, source: Relation) -> Select:
        made = self._relations.kept(draw.at("columns").some(source.columns, 1, 3))
        inner = select("select", made, source.text)
        steps = [
            f"|> where {condition(draw.at('where'), inner.columns, 1)}",
            f"|> aggregate count(*) as {self._relations.new('s')} group by {inner.columns[0].name}",
            "|> distinct",
        ]
        step = draw.pick(steps if inner.columns[0].kind not in ("map", "variant") else steps[:1])
        columns = (
            (inner.columns[0], Column(step.split(" as ")[1].split()[0], "int"))
            if "aggregate" in step
            else inner.columns
        )
        if step == "|> distinct" and any(each.kind in ("map", "variant") for each in inner.columns):
            return inner
        return Select(f"from ({inner.text}) {step}", tuple(columns))

    def _named_window(self, draw: Draw, source: Relation) -> Select | None:
        keys = [each for each in source.columns if each.kind in ("int", "text")]
        if not keys:
            return None
        by, of = draw.pick(keys), draw.pick(keys)
        calls = [self._relations.output(f"{call} over w", "int") for call in ("count(*)", f"count({of.name})")]
        made = [*self._relations.kept([by]), *calls]
        return select("select", made, f"{source.text} window w as (partition by {by.name})")

    def _alias_in_select(self, draw: Draw, source: Relation) -> Select:
        """A column that another one of the same SELECT refers to, and that is grouped by its alias."""
        of, name = value(draw.at("of"), source.columns, "int"), self._relations.new("a")
        if draw.chance(0.5):
            made = [(Column(name, "int"), f"{of} as {name}"), self._relations.output(f"{name} % 3", "int")]
            return select("select", made, source.text)
        made = [(Column(name, "int"), f"{of} as {name}"), self._relations.output("count(*)", "int")]
        return select("select", made, f"{source.text} group by {name}")

    def _values(self, draw: Draw, source: Relation) -> Select:
        return self._kept(self._relations.values())

    def _hinted(self, draw: Draw, source: Relation) -> Select:
        alias = source.text.split()[-1]
        hint = draw.pick(
            [f"broadcast({alias})", f"merge({alias})", "repartition(3)", "coalesce(1)", f"shuffle_hash({alias})"]
        )
        joined = self._relations.joined(draw.at("join"), source, self._relations.leaf(draw.at("other")))
        return select(f"select /*+ {hint} */", self._relations.kept(joined.columns), joined.text)

    def _kept(self, source: Relation) -> Select:
        return select("select", self._relations.kept(source.columns), source.text)
