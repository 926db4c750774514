"""Random queries as SQL text, over small tables with difficult values: NULLs, duplicates, skew, two zeros, NaN, keys of
different types, letters beyond ASCII, and no rows at all."""

from __future__ import annotations

import decimal
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.cost.machine import Machine

# Each table's columns with their types, by name. Keys of one family compare with each other.
FAMILIES = {
    "t": {"number": ["a", "b"], "amount": ["d"], "real": ["x"], "text": ["s"]},
    "u": {"number": ["e", "f"], "amount": ["m"], "real": ["y"], "text": ["w"]},
    "v": {"number": ["id", "g"], "amount": ["c"], "real": ["z"], "text": ["q"]},
    "none": {"number": ["h", "i"], "amount": ["j"], "real": ["k"], "text": ["l"]},
}
_TYPES = {
    "t": [pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.float64(), pa.string()],
    "u": [pa.int64(), pa.int32(), pa.decimal128(12, 3), pa.float32(), pa.string()],
    "v": [pa.int32(), pa.int32(), pa.decimal128(10, 2), pa.float64(), pa.string()],
    "none": [pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.float64(), pa.string()],
}
_TEXTS = [None, "", "a", "A", "é", "日本", "a ", "0", "01", "𝄞"]
_REALS = [None, 0.0, -0.0, float("nan"), 1.0, 2.5, -1.0, float("inf")]


def write_tables(folder: Path) -> None:
    draw = random.Random(7)
    for name, rows in (("t", 60), ("u", 45), ("v", 30), ("none", 0)):
        folder_of_table = folder / f"{name}.parquet"
        folder_of_table.mkdir(parents=True)
        table = _table(draw, name, rows)
        # Several files, so that a scan has several partitions.
        pieces = 3 if rows else 1
        for piece in range(pieces):
            pq.write_table(table.slice(piece * rows // pieces, rows // pieces), folder_of_table / f"{piece}.parquet")


def _table(draw: random.Random, name: str, rows: int) -> pa.Table:
    numbers = [None, 0, 1, 1, 1, 1, 2, 3, 4, 5, 7]
    columns = [column for family in FAMILIES[name].values() for column in family]
    made: dict[str, list[object]] = {
        columns[0]: list(range(rows)) if name == "v" else [draw.choice(numbers) for _ in range(rows)],
        columns[1]: [draw.choice(numbers) for _ in range(rows)],
        columns[2]: [
            draw.choice([None, *map(decimal.Decimal, ("0.00", "1.00", "1.50", "-2.00"))]) for _ in range(rows)
        ],
        columns[3]: [draw.choice(_REALS) for _ in range(rows)],
        columns[4]: [draw.choice(_TEXTS) for _ in range(rows)],
    }
    arrays = [pa.array(values, type) for values, type in zip(made.values(), _TYPES[name], strict=True)]
    return pa.table(dict(zip(made, arrays, strict=True)))


class Query:
    """One random query: a SELECT over one to three inputs, with optional operators above it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._number = 0

    def text(self) -> str:
        text, columns = self._body(2)
        if self._chance(0.25):
            keys = ", ".join(f"{c} {self._pick(['', 'desc', 'desc nulls first'])}" for c in columns)
            text = f"select * from ({text}) order by {keys}"
            if self._chance(0.6):
                text += f" limit {self._pick([0, 1, 5, 20])}"
        return text

    def _body(self, depth: int) -> tuple[str, list[str]]:
        shape = self._pick(["group", "group", "group", "join", "distinct", "window", "union", "set"])
        source, families = self._joined(depth)
        every = [c for family in families.values() for c in family]
        match shape:
            case "group":
                keys = self._some(every, 0, 3)
                calls = [self._aggregate(families) for _ in range(self._draw.randint(0 if keys else 1, 2))]
                made = [f"{key} as {self._new()}" for key in keys] + [f"{call} as {self._new()}" for call in calls]
                having = " having count(*) > 1" if self._chance(0.2) else ""
                grouping = f" group by {', '.join(keys)}" if keys else ""
                return f"select {', '.join(made)} from {source}{grouping}{having}", [m.split()[-1] for m in made]
            case "distinct":
                made = [f"{c} as {self._new()}" for c in self._some(every, 1, 3)]
                return f"select distinct {', '.join(made)} from {source}", [m.split()[-1] for m in made]
            case "window":
                keys, by = self._some(every, 1, 2), ", ".join(self._some(every, 0, 2))
                order = ", ".join(every)  # by all columns, so that only equal rows have no order
                partition = f"partition by {by} " if by else ""
                call = self._pick(["row_number()", "rank()", "count(*)", "dense_rank()"])
                made = [f"{key} as {self._new()}" for key in keys]
                made.append(f"{call} over ({partition}order by {order}) as {self._new()}")
                return f"select {', '.join(made)} from {source}", [m.split()[-1] for m in made]
            case "union" | "set":
                kind = self._pick(["number", "text", "amount"])
                word = "union all" if shape == "union" else self._pick(["union", "intersect", "except", "except all"])
                other, theirs = self._joined(depth - 1)
                name = self._new()
                one, two = self._pick(families[kind]), self._pick(theirs[kind])
                return f"select {one} as {name} from {source} {word} select {two} from {other}", [name]
            case _:
                made = [f"{c} as {self._new()}" for c in self._some(every, 1, 4)]
                return f"select {', '.join(made)} from {source}", [m.split()[-1] for m in made]

    def _joined(self, depth: int) -> tuple[str, dict[str, list[str]]]:
        text, families = self._input(depth)
        for _ in range(self._pick([0, 1, 1, 2])):
            other, theirs = self._input(depth)
            kind = self._pick(
                ["join", "join", "left join", "right join", "full join", "left semi join", "left anti join"]
            )
            pairs = []
            for family in self._some(["number", "number", "text", "amount", "real"], 1, 2):
                equals = self._pick(["=", "=", "=", "<=>"])
                pairs.append(f"{self._pick(families[family])} {equals} {self._pick(theirs[family])}")
            if self._chance(0.15):
                pairs.append(f"{self._pick(families['number'])} < {self._pick(theirs['number'])}")
            text = f"{text} {kind} {other} on {' and '.join(pairs)}"
            if "semi" not in kind and "anti" not in kind:
                families = {family: families[family] + theirs[family] for family in families}
        conditions = self._conditions(families, depth)
        if not conditions:
            return text, families
        # The condition applies to this input, whatever is joined later.
        every = [c for family in families.values() for c in family]
        names = {c: self._new() for c in every}
        listed = ", ".join(f"{c} as {n}" for c, n in names.items())
        inner = f"(select {listed} from {text} where {' and '.join(conditions)}) as {self._new()}"
        return inner, {family: [names[c] for c in columns] for family, columns in families.items()}

    def _conditions(self, families: dict[str, list[str]], depth: int) -> list[str]:
        found = []
        if self._chance(0.3):
            found.append(
                f"{self._pick(families['number'])} {self._pick(['=', '<', '>=', '<>'])} {self._draw.randint(0, 4)}"
            )
        if self._chance(0.15):
            found.append(f"{self._pick(families['text'])} is not null")
        if depth > 0 and self._chance(0.2):
            table = self._pick(["t", "u", "none"])
            word = self._pick(["in", "in", "not in"])
            inner, mine = self._pick(FAMILIES[table]["number"]), self._pick(families["number"])
            found.append(f"{mine} {word} (select {inner} from {table})")
        return found

    def _input(self, depth: int) -> tuple[str, dict[str, list[str]]]:
        """A table, or a query over one, with new column names."""
        table = self._pick(["t", "t", "u", "u", "v", "none"])
        alias = self._new()
        if depth > 0 and self._chance(0.25):
            keys = FAMILIES[table]
            kept = {family: [self._pick(columns)] for family, columns in keys.items()}
            columns = [c for family in kept.values() for c in family]
            names = {c: self._new() for c in columns}
            grouped = ", ".join(f"{c} as {n}" for c, n in names.items())
            text = f"(select {grouped} from {table} group by {', '.join(columns)}) as {alias}"
            return text, {family: [names[c] for c in cs] for family, cs in kept.items()}
        names = {c: self._new() for family in FAMILIES[table].values() for c in family}
        listed = ", ".join(f"{c} as {n}" for c, n in names.items())
        families = {family: [names[c] for c in cs] for family, cs in FAMILIES[table].items()}
        return f"(select {listed} from {table}) as {alias}", families

    def _aggregate(self, families: dict[str, list[str]]) -> str:
        number, amount = self._pick(families["number"]), self._pick(families["amount"])
        return self._pick(
            [
                "count(*)",
                f"count({number})",
                f"sum({number})",
                f"min({self._pick(families['text'])})",
                f"max({number})",
                f"avg({number})",
                f"sum({amount})",
                f"count(distinct {number})",
                f"max({number}) filter (where {number} > 1)",
                f"max({self._pick(families['real'])})",
            ]
        )

    def _new(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _pick(self, choices: list):  # type: ignore[no-untyped-def, type-arg]
        return self._draw.choice(choices)

    def _some(self, choices: list[str], least: int, most: int) -> list[str]:
        picked = self._draw.sample(choices, min(len(choices), self._draw.randint(least, most)))
        return list(dict.fromkeys(picked)) or ([choices[0]] if least else [])

    def _chance(self, share: float) -> bool:
        return self._draw.random() < share


def machines(partition_bytes: float) -> list[Machine]:
    """All plans over so few rows would be serial. On these machines tasks start for free and something else is
    expensive; the last machine is a usual one."""
    free = {"cores": 3, "stage": 1e-9, "task": 1e-9, "block": 1e-12, "connection": 1e-12, "file_piece_bytes": 500.0}
    free["partition_bytes"] = partition_bytes
    return [
        Machine(**free),
        Machine(**free, broadcast_bytes=0.0),
        Machine(**free, broadcast_bytes=0.0, hash_group_row=1e-5, new_group=1e-5, build_row=1e-4, probe_row=1e-5),
        Machine(**free, broadcast_bytes=0.0, sort_row=1e-4, compare=1e-5),
        Machine(**(free | {"connection": 1e-4}), fan_in=2, scan_row=1e-3, sort_row=1e-4, send_row=1e-5),
        Machine(cores=2),
    ]
