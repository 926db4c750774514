"""Random DataFrame programs, as Python expressions over `spark` and `F` that can be pasted into a test.

A program is a table with some steps after it. Steps that need a second DataFrame make a smaller program for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from tests.support.hunt.draw import Draw
from tests.support.hunt.expressions import aggregate, any_value, can_be_key, condition, is_orderable
from tests.support.hunt.schemas import Column, Table

JOINS = ["inner", "left", "right", "full", "left_semi", "left_anti"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The text of a DataFrame and its columns. Columns of no kind are carried along and not used."""

    text: str
    columns: tuple[Column, ...]
    is_ordered: bool = False

    def of_kind(self, *kinds: str) -> list[Column]:
        return [each for each in self.columns if each.kind in kinds]

    def keys(self) -> list[Column]:
        return [each for each in self.columns if each.kind and can_be_key(each)]

    def then(self, step: str, columns: Sequence[Column] | None = None) -> Frame:
        return Frame(f"{self.text}.{step}", self.columns if columns is None else tuple(columns))


class Frames:
    """Makes the DataFrame programs of one case."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = list(tables)
        self._numbers = count(1)

    def program(self, draw: Draw) -> tuple[str, bool]:
        """A program, and whether its rows have one order."""
        made = self._frame(draw.at("frame"), draw.number(1, 5))
        if draw.at("order").chance(0.3) and all(is_orderable(each) and each.kind for each in made.columns):
            made = _sorted(draw.at("order"), made)
            return made.text, True
        return made.text, False

    def _frame(self, draw: Draw, steps: int) -> Frame:
        made = self._table(draw.at("table"))
        for _ in range(steps):
            step = draw.at("step")
            if step.chance(0.95) and made.keys():
                made = step.pick(self._steps())(step.at("of"), made)
        return made

    def _steps(self) -> list[Callable[[Draw, Frame], Frame]]:
        return [
            self._where, self._select, self._group, self._join, self._join, self._with_column, self._union, self._distinct,
            self._set, self._na, self._cube, self._pivot, self._unpivot, self._explode, self._partitions, self._top, self._group,
            self._sample, self._window, self._missing, self._total, self._self_join, self._named_join, self._drop_duplicates,
        ]  # fmt: skip

    def _table(self, draw: Draw) -> Frame:
        """A table under new column names, so that joins are not ambiguous."""
        table = draw.pick(self._tables)
        columns = [Column(self._new(), each.kind, each.type) for each in table.columns]
        names = ", ".join(f'"{each.name}"' for each in columns)
        return Frame(f'spark.table("{table.name}").toDF({names})', tuple(columns))

    # --- steps

    def _where(self, draw: Draw, of: Frame) -> Frame:
        return of.then(f"where({condition(draw, _usable(of))!r})")

    def _select(self, draw: Draw, of: Frame) -> Frame:
        made = [self._named(any_value(draw.at("output"), _usable(of))) for _ in range(draw.number(1, 4))]
        listed = ", ".join(repr(f"{text} as {column.name}") for column, text in made)
        return of.then(f"selectExpr({listed})", [column for column, _ in made])

    def _with_column(self, draw: Draw, of: Frame) -> Frame:
        column, text = self._named(any_value(draw, _usable(of)))
        return of.then(f'withColumn("{column.name}", F.expr({text!r}))', [*of.columns, column])

    def _group(self, draw: Draw, of: Frame) -> Frame:
        return self._aggregated(draw, of, "groupBy")

    def _cube(self, draw: Draw, of: Frame) -> Frame:
        return self._aggregated(draw, of, draw.pick(["rollup", "cube"]))

    def _aggregated(self, draw: Draw, of: Frame, method: str) -> Frame:
        keys = draw.at("keys").some(of.keys(), 1, 2)
        calls = [self._named(aggregate(draw.at("call"), _usable(of))) for _ in range(draw.number(1, 3))]
        made = ", ".join(f'F.expr({text!r}).alias("{column.name}")' for column, text in calls)
        return of.then(f"{method}({_quoted(keys)}).agg({made})", [*keys, *(column for column, _ in calls)])

    def _pivot(self, draw: Draw, of: Frame) -> Frame:
        by = of.of_kind("text", "int")
        if not by:
            return of
        pivoted, key = draw.at("by").pick(by), draw.at("key").pick(of.keys())
        values = ["a", "b"] if pivoted.kind == "text" else [1, 2]
        names = [self._new(), self._new(), self._new()]
        step = f'groupBy("{key.name}").pivot("{pivoted.name}", {values}).agg(F.count(F.lit(1))).toDF(*{names})'
        return of.then(step, [Column(names[0], key.kind), Column(names[1], "int"), Column(names[2], "int")])

    def _unpivot(self, draw: Draw, of: Frame) -> Frame:
        numbers = draw.some(of.of_kind("int"), 1, 2)
        if not numbers:
            return of
        key, name, value = draw.at("key").pick(of.keys()), self._new(), self._new()
        # In one type, because the types of the columns may differ.
        texts = [f"cast({each.name} as bigint) as {self._new()}" for each in numbers]
        made = of.then(f"selectExpr({', '.join(map(repr, [key.name, *texts]))})", [])
        listed = [each.split()[-1] for each in texts]
        columns = [key, Column(name, "text"), Column(value, "int")]
        return made.then(f'unpivot("{key.name}", {listed}, "{name}", "{value}")', columns)

    def _explode(self, draw: Draw, of: Frame) -> Frame:
        arrays, key, name = of.of_kind("array"), draw.at("key").pick(of.keys()), self._new()
        array = draw.pick(arrays).name if arrays else f"array(1, length(cast({key.name} as string)))"
        call = draw.pick(["explode", "explode_outer"])
        return of.then(f"selectExpr({key.name!r}, {f'{call}({array}) as {name}'!r})", [key, Column(name, "int")])

    def _join(self, draw: Draw, of: Frame) -> Frame:
        other = self._frame(draw.at("other"), draw.number(0, 2))
        mine, theirs = of.keys(), other.keys()
        pairs = [(a, b) for a in mine for b in theirs if a.kind == b.kind]
        if not pairs:
            return of
        how = draw.pick(JOINS)
        equal = [f"{a.name} {draw.pick(['=', '=', '<=>'])} {b.name}" for a, b in draw.some(pairs, 1, 2)]
        on = f"F.expr({' and '.join(equal)!r})"
        columns = of.columns if how in ("left_semi", "left_anti") else (*of.columns, *other.columns)
        return of.then(f'join({other.text}, {on}, "{how}")', columns)

    def _union(self, draw: Draw, of: Frame) -> Frame:
        """With some of its own rows, columns in another order."""
        part = of.then(f"where({condition(draw.at('where'), _usable(of), 1)!r})")
        names = [each.name for each in reversed(of.columns)]
        return of.then(f"unionByName({part.text}.select({', '.join(map(repr, names))}))")

    def _set(self, draw: Draw, of: Frame) -> Frame:
        usable = Frame(of.text, tuple(draw.at("columns").some(of.keys(), 1, 3)))
        left = usable.then(f"select({_quoted(usable.columns)})")
        part = left.then(f"where({condition(draw.at('where'), usable.columns, 1)!r})")
        return left.then(f"{draw.pick(['intersect', 'exceptAll', 'subtract', 'intersectAll', 'union'])}({part.text})")

    def _distinct(self, draw: Draw, of: Frame) -> Frame:
        keys = draw.some(of.keys(), 1, 3)
        return of.then(f"select({_quoted(keys)}).{draw.pick(['distinct()', 'dropDuplicates()'])}", keys)

    def _na(self, draw: Draw, of: Frame) -> Frame:
        listed = [each.name for each in draw.some(of.of_kind("int", "text"), 1, 2)]
        if not listed:
            return of
        numbers = [each.name for each in of.of_kind("int")][:1]
        texts = [each.name for each in of.of_kind("text")][:1]
        steps = [f"na.drop(subset={listed})", f"na.fill(3, subset={numbers})", f"na.fill('none', subset={texts})"]
        steps += [f"na.replace('a', 'b', subset={texts})"] * bool(texts) + [
            f"na.replace(1, 5, subset={numbers})"
        ] * bool(numbers)
        return of.then(draw.pick(steps))

    def _partitions(self, draw: Draw, of: Frame) -> Frame:
        key = draw.pick(of.keys()).name
        steps = [
            "coalesce(1)",
            "repartition(3)",
            f'repartition("{key}")',
            f'repartition(2, "{key}")',
            f'repartitionByRange(2, "{key}")',
        ]
        return of.then(draw.pick(steps))

    def _top(self, draw: Draw, of: Frame) -> Frame:
        """The first rows by some columns, and no other columns, so that the answer is determined."""
        keys = draw.some(of.keys(), 1, 3)
        return of.then(f"select({_quoted(keys)}).sort({_quoted(keys)}).limit({draw.pick([1, 0, 3, 20])})", keys)

    def _sample(self, draw: Draw, of: Frame) -> Frame:
        """Which rows it has depends on their order in a partition, so only of a table, which is read in one order."""
        table = self._table(draw.at("table"))
        steps = [f"sample(0.5, seed={draw.number(1, 9)})", f"randomSplit([0.4, 0.6], seed={draw.number(1, 9)})[1]"]
        return table.then(draw.pick(steps)) if draw.chance(0.5) else of

    def _window(self, draw: Draw, of: Frame) -> Frame:
        """Ordered by all columns that have an order."""
        usable = [each for each in _usable(of) if is_orderable(each)]
        if not usable:
            return of
        by = draw.at("by").some(usable, 0, 2)
        partition = f"partition by {', '.join(each.name for each in by)} " if by else ""
        calls = ["row_number()", "rank()", f"count({draw.pick(usable).name})", "ntile(2)", f"lag({usable[0].name})"]
        call = draw.pick(calls)
        order = ", ".join(f"{each.name}{draw.pick(['', ' desc'])}" for each in usable)
        kind = usable[0].kind if call.startswith("lag") else "int"
        column, text = self._named((f"{call} over ({partition}order by {order})", kind))
        # Rows that tie differ in the columns without an order only, so these go.
        made = of.then(f"select({_quoted(usable)})", usable)
        return made.then(f'withColumn("{column.name}", F.expr({text!r}))', [*usable, column])

    def _missing(self, draw: Draw, of: Frame) -> Frame:
        """A union with rows that lack some columns."""
        kept = draw.some(of.keys(), 1, 2)
        if not kept:
            return of
        part = of.then(f"select({_quoted(kept)})")
        return of.then(f"unionByName({part.text}, allowMissingColumns=True)")

    def _total(self, draw: Draw, of: Frame) -> Frame:
        calls = [self._named(aggregate(draw.at("call"), _usable(of))) for _ in range(draw.number(1, 3))]
        made = ", ".join(f'F.expr({text!r}).alias("{column.name}")' for column, text in calls)
        return of.then(f"agg({made})", [column for column, _ in calls])

    def _self_join(self, draw: Draw, of: Frame) -> Frame:
        """With groups of its own rows."""
        keys = draw.at("keys").some(of.keys(), 1, 2)
        column, text = self._named(aggregate(draw.at("call"), _usable(of)))
        made = f'F.expr({text!r}).alias("{column.name}")'
        groups = of.then(f"groupBy({_quoted(keys)}).agg({made})")
        names = [each.name for each in keys]
        how = draw.pick(["inner", "left", "left_semi", "left_anti", "full"])
        more = [] if "_" in how else [column]
        rest = [each for each in of.columns if each not in keys]
        return of.then(f'join({groups.text}, {names}, "{how}")', [*keys, *rest, *more])

    def _named_join(self, draw: Draw, of: Frame) -> Frame:
        """By a name that both sides have."""
        other, mine = self._table(draw.at("other")), draw.at("mine").pick(of.keys())
        theirs = [each for each in other.columns if each.kind == mine.kind]
        if not theirs:
            return of
        renamed = other.then(f'withColumnRenamed("{theirs[0].name}", "{mine.name}")')
        how = draw.pick(["inner", "left", "right", "full", "cross"])
        rest = [each for each in other.columns if each != theirs[0]]
        if how == "cross":
            return of.then(f"limit(0).crossJoin({other.text})", [*of.columns, *other.columns])
        kept = [mine, *(each for each in of.columns if each != mine), *rest]
        return of.then(f'join({renamed.text}, "{mine.name}", "{how}")', kept)

    def _drop_duplicates(self, draw: Draw, of: Frame) -> Frame:
        """Only the columns that decide, because any of the rows may stay."""
        keys = draw.some(of.keys(), 1, 2)
        names = [each.name for each in keys]
        return of.then(f"dropDuplicates({names}).select({_quoted(keys)})", keys)

    # --- names

    def _named(self, made: tuple[str, str]) -> tuple[Column, str]:
        text, kind = made
        return Column(self._new(), kind), text

    def _new(self) -> str:
        return f"n{next(self._numbers)}"


def _usable(of: Frame) -> list[Column]:
    return [each for each in of.columns if each.kind]


def _quoted(columns: Sequence[Column]) -> str:
    return ", ".join(f'"{each.name}"' for each in columns)


def _sorted(draw: Draw, of: Frame) -> Frame:
    keys = ", ".join(
        f'F.col("{each.name}").{draw.pick(["asc", "desc", "desc_nulls_first", "asc_nulls_last"])}()'
        for each in of.columns
    )
    made = of.then(f"sort({keys})")
    return made.then(f"limit({draw.pick([1, 0, 3, 20])})") if draw.at("limit").chance(0.6) else made
